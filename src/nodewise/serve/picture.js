// The picture of an explanation, as nodewise.explaining.picture draws it: the node in the middle, a ring per step.

import { $, counted, draw, hashOf, make, nameOf, signed } from "./elements.js";


const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"], OTHER_COLOUR = "#7a5ea8";
const UNKNOWN = "label not known", OTHERS = "other classes";
const MOST_RINGS = 4, LEAST = 5, LARGEST = 20, CENTRE = 18; // radii
const RING = 62, GAP = 6, CROWDED = 200, NARROWEST = 400, EMS = 15;
const TURN = 2 * Math.PI;
const total = (values) => values.reduce((sum, value) => sum + value, 0);
const meanAngle = (angles) => (Math.atan2(total(angles.map(Math.sin)), total(angles.map(Math.cos))) + TURN) % TURN;

export function showPicture(why) {
  const rings = ringsOf(why), radii = radiiOf(why, rings), { places, circles } = placed(why, rings, radii);
  const half = Math.max(NARROWEST / 2, ((circles.at(-1) ?? 0) + LARGEST) / (1 - 1.5 / EMS)), font = half / EMS;
  const group = groupOf(why), colours = coloursOf(why, group);
  const ringOf = new Map([[0], ...rings].flatMap((ring, r) => ring.map((i) => [i, r])));
  const near = why.edges.filter(([a, b]) => Math.abs(ringOf.get(a) - ringOf.get(b)) === 1);
  const rank = new Map(why.neighbours.map((v, place) => [v.node, String(place + 1)]));
  const discs = why.drawn.map((v, i) => disc(why, v, places[i], radii[i], colours.get(group(v)), i));
  const numbers = why.drawn.flatMap((v, i) =>
    rank.has(v.node) ? [number(places[i], radii[i], font, rank.get(v.node))] : []);
  const shapes = [
    ...circles.map((r) => draw("circle", { r, class: "ring" })),
    ...near.map(([a, b]) => draw("line", { x1: places[a][0], y1: places[a][1], x2: places[b][0], y2: places[b][1] })),
    ...discs, ...numbers,
  ];
  const label = `What neighbours of ${nameOf(why)} add for ${why.class}. Arrow keys move between nodes.`;
  const box = `${-half} ${-half} ${2 * half} ${2 * half}`;
  const svg = draw("svg", { viewBox: box, role: "group", "aria-label": label }, ...shapes);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    discs[(discs.indexOf(document.activeElement) + step + discs.length) % discs.length].focus();
  });
  $("picture").replaceChildren(svg);
  $("pointed").textContent = "Point at a node, or move to it with the arrow keys; open it to ask about it.";
  showLegend(why, colours, rings);
}

/** A node as a link: filled it speaks for the class, hollow against it. */
function disc(why, v, [x, y], radius, colour, place) {
  const steps = v.hop === 0 ? "the node itself" : v.hop === null ? "far" : counted(v.hop, "step");
  const parts = [`weight ${v.weight.toPrecision(3)}`, steps, `label ${v.labels.join(", ") || "not known"}`];
  const title = `${nameOf(v)}: ${signed(v.contribution)} for ${why.class}; ${parts.join(", ")}`;
  const line = place === 0 ? 5 : 3, fill = v.contribution < 0 ? "var(--ground)" : colour;
  const circle = draw("circle", { cx: x, cy: y, r: radius - line / 2, stroke: colour, "stroke-width": line, fill });
  const halo = draw("circle", { cx: x, cy: y, r: radius + 3, class: "halo" });
  const attributes = { href: hashOf(nameOf(v)), tabindex: place === 0 ? 0 : -1, "aria-label": title };
  const link = draw("a", attributes, draw("title", {}, title), circle, halo);
  for (const kind of ["mouseenter", "focus"]) link.addEventListener(kind, () => ($("pointed").textContent = title));
  return link;
}

/** A number in a disc or, where the disc is too small for it, beyond it as seen from the middle. */
function number([x, y], radius, font, words) {
  const away = Math.hypot(x, y), beyond = away && radius < 0.33 * font * (1 + words.length);
  const reach = beyond ? radius + font * (0.2 + 0.3 * words.length * Math.abs(x / away) + 0.4 * Math.abs(y / away)) : 0;
  const scale = beyond ? 1 + reach / away : 1;
  return draw("text", { x: x * scale, y: y * scale + 0.35 * font, "font-size": font, "aria-hidden": "true" }, words);
}

/** Places of the neighbours by steps; the last ring holds those further away too. */
function ringsOf(why) {
  const rings = Array.from({ length: MOST_RINGS }, () => []);
  why.drawn.forEach((v, i) => i && rings[Math.min(v.hop ?? MOST_RINGS, MOST_RINGS) - 1].push(i));
  return rings.filter((ring) => ring.length);
}

/** Areas follow what nodes add, less so where a ring would get too crowded; the middle has its own size. */
function radiiOf(why, rings) {
  const sizes = why.drawn.map((v) => Math.sqrt(Math.abs(v.contribution)));
  const largest = Math.max(0, ...sizes.slice(1)) || 1;
  const spreads = rings.map((ring) =>
    ((TURN * CROWDED - ring.length * (2 * LEAST + GAP)) * largest) / (2 * total(ring.map((i) => sizes[i])) || 1));
  const spread = Math.min(LARGEST - LEAST, ...spreads);
  return sizes.map((size, i) => (i === 0 ? CENTRE : LEAST + (spread * size) / largest));
}

/** Where each node is: spread evenly on its ring, in the order of the nodes further in that it touches. */
function placed(why, rings, radii) {
  const angles = new Map(), places = why.drawn.map(() => [0, 0]), circles = [], near = why.drawn.map(() => []);
  for (const [a, b] of why.edges) near[a].push(b), near[b].push(a);
  for (const ring of rings) {
    const inner = new Map(ring.map((i) => [i, near[i].filter((j) => angles.has(j)).map((j) => angles.get(j))]));
    const wish = new Map(ring.map((i) => [i, meanAngle(inner.get(i))]));
    const byLabel = (a, b) => String(why.drawn[a].labels).localeCompare(String(why.drawn[b].labels));
    const order = [...ring].sort((a, b) => wish.get(a) - wish.get(b) || byLabel(a, b) || a - b);
    const around = total(order.map((i) => 2 * radii[i] + GAP));
    const circle = Math.max((circles.at(-1) ?? 0) + RING, around / TURN);
    const spare = (TURN * circle - around) / order.length;
    let at = 0;
    for (const i of order) {
      const width = (2 * radii[i] + GAP + spare) / circle;
      angles.set(i, at + width / 2);
      at += width;
    }
    const turned = meanAngle(order.filter((i) => inner.get(i).length).map((i) => wish.get(i) - angles.get(i)));
    for (const i of order) {
      angles.set(i, angles.get(i) + turned);
      places[i] = [circle * Math.cos(angles.get(i)), circle * Math.sin(angles.get(i))];
    }
    circles.push(circle);
  }
  return { places, circles };
}

/** What a node's colour says: its known label or, where nodes have several, whether it has the one explained. */
function groupOf(why) {
  if (why.runner_up !== null || Object.keys(why.probabilities).length < 2) return (v) => v.labels[0] ?? UNKNOWN;
  return (v) => (v.labels.length === 0 ? UNKNOWN : v.labels.includes(why.class) ? why.class : `not ${why.class}`);
}

function coloursOf(why, group) {
  const counts = new Map();
  for (const v of why.drawn) counts.set(group(v), (counts.get(group(v)) ?? 0) + 1);
  const first = [why.class, why.runner_up].filter((name) => name !== null);
  const rest = [...counts.keys()].filter((name) => name !== UNKNOWN && !first.includes(name));
  rest.sort((a, b) => counts.get(b) - counts.get(a));
  const colours = [...first, ...rest].map((name, i) => [name, COLOURS[i] ?? OTHER_COLOUR]);
  colours.push([UNKNOWN, "var(--unknown)"]);
  return new Map(colours.filter(([name]) => counts.has(name)));
}

function showLegend(why, colours, rings) {
  const named = [...colours].filter(([, colour]) => colour !== OTHER_COLOUR);
  if (named.length < colours.size) named.push([OTHERS, OTHER_COLOUR]);
  const quiet = "var(--quiet)", ground = "var(--ground)";
  const entries = named.map(([name, colour]) =>
    [colour, colour, name === UNKNOWN || name === OTHERS ? name : `label ${name}`]);
  entries.push([quiet, quiet, `for ${why.class}`], [quiet, ground, `against ${why.class}`]);
  const swatch = (stroke, fill) => draw("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" },
    draw("circle", { r: 6, "stroke-width": 3, stroke, fill }));
  $("legend").replaceChildren(...entries.map(([stroke, fill, words]) => make("li", {}, swatch(stroke, fill), words)));
  const steps = rings.map((ring) => Math.min(why.drawn[ring[0]].hop ?? MOST_RINGS, MOST_RINGS));
  const shown = steps.map((step) => (step < MOST_RINGS ? step : `${MOST_RINGS} or more`)).join(", ");
  const hidden = why.rest.count + why.neighbours.length - why.drawn.length;
  const words = rings.length ? `Rings: ${shown} ${shown === "1" ? "step" : "steps"} away. Size: what it adds.` : "";
  $("drawn").textContent = hidden > 0 ? `${words} ${counted(hidden, "more neighbour")} not drawn.` : words;
}

// The page of `nodewise serve`: one node at a time, why it gets its label, and nodes that are not in the graph.

import { complete } from "./completion.js";
import { $, ask, counted, hashOf, make, nameOf, percent, say, signed } from "./elements.js";
import { showPicture } from "./picture.js";

const MOST_BARS = 10, MOST_FLIPPED = 20;
const LABEL = "known label";
let about = null;
let turn = 0; // of questions about nodes: an answer to an earlier one is dropped

const linkTo = (name) => make("a", { href: hashOf(name) }, name);
const listed = (entries) => entries.flatMap((entry, i) => (i ? [", ", ...entry] : entry));
const wanted = () => new URLSearchParams(location.hash.slice(1));

function showParts(hidden) {
  for (const part of document.querySelectorAll(".reasons")) part.hidden = hidden;
}

// ---------------------------------------------------------------------- one node

/** Ask about the node in the address, and show what is answered. */
async function show() {
  const node = wanted().get("node"), other = wanted().get("class");
  if (node === null) return; // a place on the page
  const mine = ++turn, late = setTimeout(() => mine === turn && say("Asking …"), 300);
  const stay = mine === 1 || document.activeElement === $("class");
  $("node").value = node;
  $("answer").setAttribute("aria-busy", "true");
  let predicted = false;
  try {
    const reasons = ask("explain", { node, class: other });
    reasons.catch(() => {}); // it is awaited below, unless the prediction fails first
    const found = (await ask("predict", { nodes: [node], top: MOST_BARS })).predictions[0];
    if (mine !== turn) return;
    showPrediction(found);
    predicted = true;
    if (!stay) $("title").focus();
    const why = await reasons;
    if (mine !== turn) return;
    showReasons(why);
    say("");
  } catch (error) {
    if (mine !== turn) return;
    say(error.message, true);
    $("answer").hidden = !predicted;
    showParts(true);
  } finally {
    clearTimeout(late);
    if (mine === turn) $("answer").setAttribute("aria-busy", "false");
  }
}

function showPrediction(found) {
  const label = found.label ?? "none", inOrder = (labels) => labels.split("; ").sort().join("; ");
  const agrees = found.known !== null && inOrder(found.known) === inOrder(label);
  const verdict = found.known === null ? "" : agrees ? ": as predicted" : ": not as predicted";
  const facts = [
    ["", label, "predicted label"],
    ["", percent(found.probability), about.several_labels_per_node ? "of the most probable label" : "its probability"],
    [verdict && !agrees ? "differs" : "", found.known ?? "not known", `known label${verdict}`],
  ];
  document.title = `${found.node} · nodewise`;
  $("title").textContent = `Node ${found.node}`;
  $("facts").replaceChildren(
    ...facts.map(([kind, value, what]) => make("div", { class: kind }, make("b", {}, value), make("span", {}, what))),
  );
  showBars($("bars"), found);
  $("answer").hidden = false;
}

/** Probabilities as bars: the first classes, and the others together. */
function showBars(table, found) {
  const rows = found.top.map(({ label, probability }) => {
    const tag = label === found.known ? [" ", make("span", { class: "tag" }, "(known)")] : [];
    return barRow([label, ...tag], probability, "");
  });
  const others = about.classes.length - rows.length;
  if (others > 0 && !about.several_labels_per_node) {
    const rest = 1 - found.top.reduce((sum, one) => sum + one.probability, 0);
    rows.push(barRow([counted(others, "other")], Math.max(0, rest), "rest"));
  } else if (others > 0) {
    rows.push(make("tr", { class: "less" }, make("td", { colspan: 3 }, `The ${counted(others, "other")} have less.`)));
  }
  table.replaceChildren(make("tbody", {}, ...rows));
}

function barRow(name, share, kind) {
  const bar = make("span", { class: "bar" });
  bar.style.width = percent(share);
  const cells = [make("td", { "aria-hidden": "true" }, bar), make("td", { class: "number" }, percent(share))];
  return make("tr", { class: kind }, make("th", { scope: "row" }, ...name), ...cells);
}

// ---------------------------------------------------------------------- reasons

function showReasons(why) {
  showParts(false);
  $("class").value = why.class;
  const parts = `${signed(why.logit - why.bias)} from neighbours, ${signed(why.bias)} bias`;
  const lead = ` Its margin over ${why.runner_up}, the most probable other class, is ${signed(why.margin ?? 0)}.`;
  const sum = `The logit of ${why.class} is ${signed(why.logit)}: ${parts}.`;
  $("sum").textContent = why.runner_up === null ? sum : sum + lead;
  $("flip").replaceChildren(...flipWords(why));
  const reached = why.reached.slice(0, MOST_BARS).map((one) => `${one.label} (${percent(one.share)})`);
  $("reached").textContent = reached.length ? `Known labels of its neighbours, by weight: ${reached.join(", ")}.` : "";
  const similar = (why.similar ?? []).map((v) => [linkTo(nameOf(v)), ` (${v.labels.join(", ")})`]);
  $("similar").replaceChildren(...(similar.length ? ["Most similar training nodes: ", ...listed(similar), "."] : []));
  $("ridge").replaceChildren(...ridgeWords(why.ridge));
  $("lead").hidden = why.runner_up === null;
  $("note").hidden = !why.sampled_instead;
  showPicture(why);
  showTables(why);
}

/** The labelled nodes that add most through ridges, where these vote. */
function ridgeWords(ridge) {
  if (ridge === null) return [];
  const first = ridge.nodes.slice(0, 5).map((v) => [linkTo(nameOf(v)), ` (${v.labels.join(", ")}, ${signed(v.contribution)})`]);
  const words = `A ridge regression, with ${percent(ridge.votes)} of the votes, adds ${signed(ridge.contribution)}, most through the labelled nodes `;
  return [words, ...listed(first), "."];
}

/** What would have to go for another answer. */
function flipWords(why) {
  const given = why.predicted.includes(why.class), flip = why.flip;
  if (flip === null) {
    const [side, stays] = given ? ["for", "would still be"] : ["against", "would still not be"];
    return [`Even without all neighbours that speak ${side} it, ${why.class} ${stays} the answer.`];
  }
  const names = flip.names ?? flip.nodes.map(String);
  const links = listed(names.slice(0, MOST_FLIPPED).map((name) => [linkTo(name)]));
  const [now, then] = [why.probabilities[why.class], flip.probability].map(percent);
  return [
    `Without ${counted(names.length, "neighbour")} (${percent(flip.share)} of the weight: `, ...links,
    `${names.length > MOST_FLIPPED ? ", …" : ""}) the answer would be ${flip.predicted.join(", ") || "none"}: `,
    `the probability of ${why.class} would go from ${now} to ${then}.`,
  ];
}

function showTables(why) {
  const added = [`for ${why.class}`, ...(why.runner_up === null ? [] : [`over ${why.runner_up}`])];
  const parts = (one) => [one.contribution, one.margin].slice(0, added.length).map(signed);
  const rest = (one) => (one.count ? [[counted(one.count, "other"), ...parts(one)]] : []);
  const rows = why.neighbours.map((v, place) => {
    const name = v.hop === 0 ? [nameOf(v), " (itself)"] : [linkTo(nameOf(v))];
    const first = make("span", {}, `${place + 1}. `, ...name);
    return [first, ...parts(v), v.hop ?? "far", v.weight.toFixed(4), v.labels.join(", ") || "not known"];
  });
  const bias = ["bias", ...parts({ contribution: why.bias, margin: why.bias_margin })];
  const head = ["neighbour", ...added, "steps", "weight", LABEL];
  fillTable($("neighbours"), head, rows, [...rest(why.rest), bias]);
  $("by-feature").hidden = why.features === null;
  if (why.features === null) return;
  const features = why.features.map((one) => [one.name, ...parts(one)]);
  fillTable($("features"), ["feature", ...added], features, rest(why.rest_of_features));
}

/** The first column holds names, and so does one called LABEL; the others hold numbers. */
function fillTable(table, head, rows, sums) {
  const kind = (column) => (column === 0 || head[column] === LABEL ? "" : "number");
  const cells = ([name, ...row]) => [
    make("th", { scope: "row" }, name),
    ...head.slice(1).map((_, column) => make("td", { class: kind(column + 1) }, String(row[column] ?? ""))),
  ];
  const names = head.map((name, column) => make("th", { scope: "col", class: kind(column) }, name));
  const lines = rows.map((row) => make("tr", {}, ...cells(row)));
  const last = sums.map((row) => make("tr", { class: "less" }, ...cells(row)));
  table.replaceChildren(make("thead", {}, make("tr", {}, ...names)), make("tbody", {}, ...lines, ...last));
}

// ---------------------------------------------------------------------- a new node

const NAME = /\s*(?:"(?:[^"]|"")*"|[^,\n]+)/g; // a name with a comma is put in quotes
const quoted = (name) => (/[,"\n]|^\s|\s$/.test(name) ? `"${name.replaceAll('"', '""')}"` : name);
const unquoted = (text) => (/^".*"$/s.test(text) ? text.slice(1, -1).replaceAll('""', '"') : text);
const readNames = (text) => (text.match(NAME) ?? []).map((name) => unquoted(name.trim())).filter(Boolean);

function readNumber(text) {
  if (text.trim() && Number.isFinite(Number(text))) return Number(text);
  throw new Error(`Features: '${text.trim()}' is not a number`);
}

/** Features as `name=value` lines, or as numbers in order. */
function readFeatures(text) {
  if (!text.trim()) return null;
  if (!text.includes("=")) return text.split(/[\s,]+/).filter(Boolean).map(readNumber);
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(lines.map((line) => {
    const cut = line.lastIndexOf("=");
    if (cut < 0) throw new Error(`Features: '${line.trim()}' has no '='; expected name=value`);
    return [line.slice(0, cut).trim(), readNumber(line.slice(cut + 1))];
  }));
}

async function predictNew() {
  const place = $("new-message"), table = $("new-bars");
  table.hidden = true;
  try {
    const node = { neighbours: readNames($("new-neighbours").value), features: readFeatures($("new-features").value) };
    say("Asking …", false, place);
    const found = (await ask("predict-new", { nodes: [node], top: MOST_BARS })).predictions[0];
    showBars(table, found);
    table.hidden = false;
    say(`Predicted label: ${found.label ?? "none"} (${percent(found.probability)}).`, false, place);
  } catch (error) {
    say(error.message, true, place);
  }
}

/** Completion of the name at the cursor in the list of neighbours. */
function completeNeighbours() {
  const field = $("new-neighbours"), before = () => field.value.slice(0, field.selectionStart);
  const typed = () => before().match(/(?:"(?:[^"]|"")*"?|[^,\n"])*$/)[0].trimStart();
  const choose = (name) => {
    const end = field.selectionStart;
    field.setRangeText(`${quoted(name)}, `, end - typed().length, end, "end");
  };
  complete(field, $("new-names"), () => typed().replace(/^"/, ""), choose);
}

// ---------------------------------------------------------------------- the beginning

function go(node, other) {
  if (location.hash === hashOf(node, other)) show();
  else location.hash = hashOf(node, other);
}

function describe() {
  const sizes = [counted(about.nodes, "node"), counted(about.edges, "edge"), counted(about.features, "feature")];
  $("about").textContent = `${about.graph}: ${sizes.join(", ")}, ${about.classes.length} classes`;
  $("class").replaceChildren(...about.classes.map((name) => make("option", { value: name }, name)));
  $("node").placeholder = about.named ? `for example ${about.example}` : `0 to ${about.nodes - 1}`;
  $("new-features-field").hidden = about.features === 0;
  const line = `A line for each that is not zero, as ${about.feature_names[0] ?? 0}=1`;
  $("new-features-help").textContent = `${line}; or all ${about.features.toLocaleString("en")} numbers in order.`;
}

async function begin() {
  document.addEventListener("submit", (event) => event.preventDefault());
  about = await ask("about");
  describe();
  let close = () => {};
  if (about.named) {
    close = complete($("node"), $("node-names"), () => $("node").value, (name) => go(name));
    completeNeighbours();
  }
  $("search").addEventListener("submit", () => (close(), go($("node").value)));
  $("new-node").addEventListener("submit", predictNew);
  $("class").addEventListener("change", () => go(wanted().get("node"), $("class").value));
  window.addEventListener("hashchange", show);
  if (!wanted().has("node")) history.replaceState(null, "", hashOf(about.example));
  await show();
}

begin().catch((error) => say(error.message, true));

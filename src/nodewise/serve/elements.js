// What the pages of `nodewise serve` share. Names in answers may be anything: they become text, never HTML.

export const $ = (id) => document.getElementById(id);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
export const make = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const draw = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

export const percent = (share) => `${(100 * share).toFixed(1)}%`;
export const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
export const nameOf = (node) => node.name ?? String(node.node);
export const hashOf = (node, other) =>
  `#${new URLSearchParams(other === undefined ? { node } : { node, class: other })}`;

/** Show a sentence where a screen reader hears of it. */
export function say(words, wrong = false, place = $("message")) {
  const text = words.charAt(0).toUpperCase() + words.slice(1);
  place.textContent = wrong && !/[.?!]$/.test(text) ? `${text}.` : text;
  place.classList.toggle("wrong", wrong);
}

/** What the server answers; an Error with a sentence where it refuses or is gone. */
export async function ask(path, body) {
  const json = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, body && json).catch(() => {
    throw new Error("The server does not answer. Is it still running?");
  });
  const said = await answer.json().catch(() => null);
  if (answer.ok && said !== null) return said;
  throw new Error(typeof said?.detail === "string" ? said.detail : `The server could not answer (${answer.status})`);
}

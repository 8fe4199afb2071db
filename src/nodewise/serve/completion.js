// Names of nodes offered while one is typed: arrow keys, Enter and Escape, as in the ARIA combobox pattern.

import { ask, make, say } from "./elements.js";

const MOST_COMPLETIONS = 8;
const PAUSE = 120; // milliseconds without a key before names are looked up


/** Offer names for what is being typed: `part()` is that, `choose(name)` takes one. */
export function complete(field, list, part, choose) {
  let timer = 0, asked = 0, at = -1;
  const mark = (place) => {
    at = place;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
    if (at < 0) field.removeAttribute("aria-activedescendant");
    else field.setAttribute("aria-activedescendant", list.children[at].id);
  };
  const close = () => {
    clearTimeout(timer);
    asked++;
    offer([]);
  };
  const offer = (names) => {
    list.replaceChildren(...names.map((name, i) => make("li", { role: "option", id: `${list.id}-${i}` }, name)));
    list.hidden = names.length === 0;
    if (field.getAttribute("role") === "combobox") field.setAttribute("aria-expanded", String(!list.hidden));
    mark(-1);
  };
  const take = (name) => {
    choose(name);
    close();
  };
  const look = async () => {
    const prefix = part().slice(0, 200), mine = ++asked;
    if (!prefix) return offer([]);
    const query = new URLSearchParams({ prefix, limit: MOST_COMPLETIONS });
    const found = await ask(`nodes?${query}`).catch((error) => say(error.message, true));
    if (mine === asked) offer(found?.nodes ?? []);
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], count = list.children.length;
    if (list.hidden) return;
    if (step) mark(at < 0 && step < 0 ? count - 1 : (at + step + count) % count);
    else if (event.key === "Escape") close();
    else if (event.key === "Enter" && at >= 0) take(list.children[at].textContent);
    else return;
    event.preventDefault();
  });
  field.addEventListener("blur", close);
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", (event) => event.target.role === "option" && take(event.target.textContent));
  return close;
}

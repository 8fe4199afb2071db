// The page about the API: each path of /openapi.json with its words and a command to try.

import { $, ask, make, say } from "./elements.js";

/** Bodies to try, about a node of this graph. */
const examples = (about) => ({
  "/predict": { nodes: [about.example], top: 2 },
  "/explain": { node: about.example, class: about.classes[0], top: 5 },
  "/predict-new": { nodes: [{ name: "my node", neighbours: [about.example], ...features(about) }], top: 2 },
});
const features = (about) => (about.features ? { features: { [about.feature_names[0] ?? "0"]: 1 } } : {});

const inShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function command(path, body, about) {
  const address = new URL(path.slice(1), location.href).href;
  const query = new URLSearchParams({ prefix: about.example, limit: 5 });
  if (path === "/nodes") return `curl ${inShell(`${address}?${query}`)}`;
  if (body === undefined) return `curl ${address}`;
  return `curl ${address} -H 'content-type: application/json' -d ${inShell(JSON.stringify(body))}`;
}

/** The fields of a body, or the parameters of a query: name, schema, and whether it must be there. */
function fieldsOf(question, schemas) {
  const body = named(question.requestBody?.content["application/json"].schema, schemas);
  const must = body.required ?? [];
  const fields = Object.entries(body.properties ?? {}).map(([name, schema]) => [name, schema, must.includes(name)]);
  return [...fields, ...(question.parameters ?? []).map((one) => [one.name, one.schema, one.required])];
}
const named = (schema, schemas) => schemas[schema?.$ref?.split("/").at(-1)] ?? {};

function section(path, method, question, schemas, about) {
  const lines = fieldsOf(question, schemas).map(([name, schema, required]) => {
    const first = required ? "required" : `default ${JSON.stringify(schema.default ?? null)}`;
    const words = schema.description ?? named(schema.items, schemas).description ?? "";
    return make("li", {}, make("code", {}, name), `: ${first}. ${words}`);
  });
  const title = make("h2", {}, make("code", {}, `${method.toUpperCase()} ${path}`));
  const list = lines.length ? [make("ul", {}, ...lines)] : [];
  const example = make("pre", { tabindex: 0 }, command(path, examples(about)[path], about));
  return make("section", {}, title, make("p", {}, question.description ?? question.summary ?? ""), ...list, example);
}

async function begin() {
  const [openapi, about] = await Promise.all([ask("openapi.json"), ask("about")]);
  const schemas = openapi.components.schemas;
  const questions = Object.entries(openapi.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, question]) => section(path, method, question, schemas, about)));
  $("paths").replaceChildren(...questions);
}

begin().catch((error) => say(error.message, true));

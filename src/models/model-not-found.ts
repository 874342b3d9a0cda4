// Errors about models that are not offered: unknown ones, with similar ids, and those that their provider has shut down.

import { Fault, type NextStep } from "../base/fault.ts";
import { closestName } from "../base/text/suggest.ts";
import { type Catalog, modelAt, withoutClaudeAlias } from "./catalog.ts";
import { type Shutdown, shutdownBefore, SHUTDOWNS } from "./tables/shutdown-dates.ts";

const SIMILAR_MAX = 3;

/** Model ids similar to an unknown one, to suggest in errors. */
export function similarIds(catalog: Catalog, id: string): readonly string[] {
  const wanted = id.slice(id.lastIndexOf("/") + 1).toLowerCase();
  if (wanted.length < 3) return [];
  const found = catalog.models
    .map((model) => model.id)
    .filter((one) => hasWordsFrom(one.toLowerCase(), wanted));
  if (found.length === 0) return misspelledIds(catalog, id);
  return found.toSorted((left, right) => left.length - right.length).slice(0, SIMILAR_MAX);
}

/** Whether the id contains the text at the beginning of a word. */
function hasWordsFrom(id: string, text: string): boolean {
  for (let at = id.indexOf(text); at !== -1; at = id.indexOf(text, at + 1))
    if (!/[a-z]/.test(id.charAt(at - 1))) return true;
  return false;
}

const ID_MAX_CHARACTERS = 80;

/** The ids a few typos away, compared with and without their provider. */
function misspelledIds({ models }: Catalog, id: string): readonly string[] {
  if (id.length > ID_MAX_CHARACTERS) return [];
  const bareName = (name: string): string => name.slice(name.lastIndexOf("/") + 1);
  const ids = models.map((model) => model.id);
  const exact = closestName(id, ids);
  if (exact !== undefined) return [exact];
  const meant = closestName(bareName(id), [...new Set(ids.map(bareName))]);
  return meant === undefined
    ? []
    : ids.filter((one) => bareName(one) === meant).slice(0, SIMILAR_MAX);
}

/** An error does not repeat what may be megabytes. */
const ECHOED_ID_MAX_LENGTH = 200;

/** The 404 for a model that was shut down, or for an unknown id, with similar ids. */
export function modelNotFound(catalog: Catalog, id: string, param = "model"): Fault {
  const shutDown = shutDownFault(catalog, id, param);
  if (shutDown !== undefined) return shutDown;
  const similar = similarIds(catalog, id);
  const hint =
    similar.length > 0 ? ` Did you mean ${similar.map((name) => `"${name}"`).join(" or ")}?` : "";
  return new Fault("model_not_found", `no model ${id}`, {
    message: `No model has the id ${JSON.stringify(id.slice(0, ECHOED_ID_MAX_LENGTH))}.${hint} Model ids have the form "<provider>/<name>": see GET /v1/models.`,
    param,
  });
}

/** The 404 for a model that its provider has shut down; undefined for every other id. */
function shutDownFault(catalog: Catalog, id: string, param: string): Fault | undefined {
  const found = shutDownModel(catalog, id);
  if (found === undefined) return undefined;
  const { successor } = found.shutdown;
  return new Fault("model_not_found", `${id} was shut down`, {
    message: messageOf(found),
    param,
    ...(successor === undefined ? {} : { next: [successorStep(successor)] }),
  });
}

/** Which provider has shut the model down, when, and what to use; undefined for every other id. */
export function shutDownMessage(catalog: Catalog, id: string): string | undefined {
  const found = shutDownModel(catalog, id);
  return found && messageOf(found);
}

function messageOf({ provider, name, shutdown: { date, successor } }: ShutDownModel): string {
  const hint = successor === undefined ? "See GET /v1/models for others." : `Use "${successor}".`;
  return `The provider "${provider}" shut ${JSON.stringify(name)} down on ${date}. ${hint}`;
}

interface ShutDownModel {
  readonly provider: string;
  readonly name: string;
  readonly shutdown: Shutdown;
}

/** A name without a provider is that of the first one that has ended such a model. */
function shutDownModel(catalog: Catalog, requested: string): ShutDownModel | undefined {
  const id = withoutClaudeAlias(requested);
  if (id.length > ECHOED_ID_MAX_LENGTH) return undefined;
  const slash = id.indexOf("/");
  const name = id.slice(slash + 1);
  const providers = slash > 0 ? [id.slice(0, slash)] : [...SHUTDOWNS.keys()];
  for (const provider of providers) {
    const model = modelAt(catalog, provider, name);
    const shutdown =
      shutdownBefore(catalog.day, provider, name) ??
      (model?.retired === true ? shutdownBefore(catalog.day, provider, model.name) : undefined);
    if (shutdown !== undefined) return { provider, name, shutdown };
  }
  return undefined;
}

function successorStep(id: string): NextStep {
  return { method: "GET", url: `/v1/models/${id}`, why: "Read the price of its successor." };
}

// The accounts that a model can be called on at its provider. The caller's own provider key comes first, then the gateway's.
// Which models and providers come into question at all is a matter of routing.

import { Fault, invalid } from "../base/fault.ts";
import type { Secret } from "../base/secret.ts";
import type { Catalog, Found, Model } from "../models/catalog.ts";
import { datedCard } from "../models/card.ts";
import type { Provider, RelayedWire, UpstreamWire } from "./providers.ts";
import type { Credential } from "./upstream.ts";

export interface Candidate {
  /** The wires that the provider can be called on: the caller's own first where it has it, else in order of preference. */
  readonly wires: readonly [UpstreamWire, ...UpstreamWire[]];
  readonly model: Model;
  /** What the provider calls the model. */
  readonly upstreamName: string;
  readonly credential: Credential;
  /** Which conversation this is a turn of, where it matters who answered the turn before. */
  readonly turn?: { readonly conversation: string; readonly asked: string } | undefined;
}

export interface OwnKey {
  readonly id: string;
  readonly apiKey: Secret;
}

interface Place {
  readonly provider: Provider;
  readonly own: Credential | undefined;
  readonly baseUrl: string;
}

export interface CandidateParts {
  /** The provider's row and the gateway's account there, if it has one. */
  readonly providerOf: (id: string) => Place | undefined;
  readonly wayTo: WayTo;
  readonly ownKeyOf: OwnKeyOf;
}

/** The account's own key at a provider: at once, where it was read a moment ago. */
export type OwnKeyOf = (
  accountId: string,
  providerId: string,
) => OwnKey | undefined | Promise<OwnKey | undefined>;

const APIS: Readonly<Record<string, string>> = {
  chat: "POST /v1/chat/completions",
  responses: "POST /v1/responses",
  messages: "POST /v1/messages",
  embeddings: "POST /v1/embeddings",
};

/** Who asks for a model, and in which API. */
export interface Asking {
  readonly wire: RelayedWire;
  readonly accountId: string;
  readonly catalog: Catalog;
}

export type Candidates = readonly [Candidate, ...Candidate[]];

/** The accounts on which this model can be called, in the order of trying them; a fault where there is none. */
export function candidatesAt(
  found: Found,
  { wire, accountId, catalog }: Asking,
  parts: CandidateParts,
): Candidates | Promise<Candidates> {
  const way = parts.wayTo(found, wire, catalog);
  const ownKey = parts.ownKeyOf(accountId, found.model.provider);
  return ownKey instanceof Promise
    ? ownKey.then((key) => candidatesOn(way, found, key))
    : candidatesOn(way, found, ownKey);
}

function candidatesOn(
  { wires, place, shared }: Way,
  { model, upstreamName }: Found,
  ownKey: OwnKey | undefined,
): Candidates {
  if (ownKey === undefined) {
    if (shared === undefined)
      throw notConfigured([{ id: model.provider, takesKeys: takesKeys(place) }]);
    return shared;
  }
  const own: Candidate = {
    wires,
    model,
    upstreamName,
    credential: {
      provider: place.provider,
      baseUrl: place.baseUrl,
      apiKey: ownKey.apiKey,
      label: ownKey.id,
      byok: true,
      ...(place.own?.inProcess === undefined ? {} : { inProcess: place.own.inProcess }),
    },
  };
  return [own, ...(shared ?? [])];
}

/** What calling a model comes to, whoever calls. */
interface Way {
  readonly wires: Candidate["wires"];
  readonly place: Place;
  /** On the gateway's own account, where it has one. */
  readonly shared: readonly [Candidate] | undefined;
}

const WAYS_MAX = 1_000;

/** Finds the way to a model on a wire; a fault where there is none. */
export type WayTo = (found: Found, wire: RelayedWire, catalog: Catalog) => Way;

// A catalog never changes, and neither do the gateway's accounts while it lasts: a way is found once.
export function createWays(providerOf: CandidateParts["providerOf"]): WayTo {
  let known = new Map<string, Way>();
  let knownIn: Catalog | undefined;
  return (found, wire, catalog) => {
    if (catalog !== knownIn) known = new Map();
    knownIn = catalog;
    const name = `${wire} ${found.model.id} ${found.upstreamName}`;
    const before = known.get(name);
    if (before !== undefined) return before;
    const way = findWay(found, wire, providerOf);
    if (known.size >= WAYS_MAX) known.clear();
    known.set(name, way);
    return way;
  };
}

function findWay(
  { model, upstreamName }: Found,
  wire: RelayedWire,
  providerOf: CandidateParts["providerOf"],
): Way {
  const place = providerOf(model.provider);
  if (place === undefined) throw notConfigured([{ id: model.provider, takesKeys: false }]);
  const wires = wiresFor(model, place.provider, wire);
  const { own: credential } = place;
  const shared = credential && ([{ wires, model, upstreamName, credential }] as const);
  return { wires, place, shared };
}

interface Absent {
  readonly id: string;
  /** Whether callers can bring a key of their own there. */
  readonly takesKeys: boolean;
}

function takesKeys(place: Place | undefined): boolean {
  return place !== undefined && !place.provider.local && place.provider.ownKeys !== false;
}

/** Of a name that several providers have: none of them is set up. */
export function noneConfigured(
  models: readonly Model[],
  providerOf: CandidateParts["providerOf"],
): Fault {
  const ids = [...new Set(models.map(({ provider }) => provider))];
  return notConfigured(ids.map((id) => ({ id, takesKeys: takesKeys(providerOf(id)) })));
}

function notConfigured(absent: readonly Absent[]): Fault {
  const names = oneOf(absent);
  const open = absent.filter((one) => one.takesKeys);
  const own =
    open.length === 0 ? "" : `, or add your own key for ${oneOf(open)} with POST /v1/provider-keys`;
  return new Fault("provider_not_configured", `no account at ${names}`, {
    message: `This gateway has no account at ${names}. Use another model${own}.`,
    isCallersChoice: true,
    param: "model",
    next: [
      {
        method: "GET",
        url: "/v1/models?available=true",
        why: "List the models that can be called now.",
      },
    ],
  });
}

function oneOf(absent: readonly Absent[]): string {
  const ids = absent.map(({ id }) => id);
  return [ids.slice(0, -1).join(", "), ...ids.slice(-1)].filter((text) => text !== "").join(" or ");
}

const TRANSLATED: readonly UpstreamWire[] = ["messages", "responses", "gemini", "converse", "chat"];

// The same wire is relayed; any other is translated to, the provider's own before those that it merely imitates.
function wiresFor(
  model: Model,
  provider: Provider,
  wire: RelayedWire,
): readonly [UpstreamWire, ...UpstreamWire[]] {
  const offers = (one: UpstreamWire): boolean => {
    const spoken = one === "count_tokens" ? "messages" : one;
    return model.wires.some((known) => known === spoken) && provider.paths[one] !== undefined;
  };
  // What an old model cannot do on this newer API, it may be brought to on the older one.
  if (offers(wire)) return wire === "responses" && offers("chat") ? [wire, "chat"] : [wire];
  const [other, ...more] = wire === "embeddings" ? [] : TRANSLATED.filter(offers);
  if (other !== undefined) return [other, ...more];
  const others = model.wires
    .filter((one) => APIS[one] !== undefined && offers(one))
    .map((one) => APIS[one] ?? one);
  const hint =
    others.length === 0
      ? "It cannot be called through this gateway."
      : `Call it with ${others.join(" or ")}.`;
  throw invalid("model", `${model.id} does not take this API. ${hint}`);
}

const FREE = datedCard({ tokens: { input: 0, output: 0 } });

// A server beside the gateway has whatever models its owner loaded, and costs nothing unless prices were set.
export function localModel(id: string, parts: CandidateParts): Found | undefined {
  const slash = id.indexOf("/");
  const provider = id.slice(0, Math.max(0, slash));
  const name = id.slice(slash + 1);
  if (name === "" || parts.providerOf(provider)?.provider.local !== true) return undefined;
  const model: Model = {
    id,
    provider,
    name,
    title: name,
    kind: "chat",
    created: 0,
    contextLength: null,
    maxOutputTokens: null,
    inputModalities: ["text"],
    outputModalities: ["text"],
    supported: [],
    wires: ["chat", "embeddings"],
    aliases: [],
    spellings: [],
    prices: [FREE],
    source: "a local server, free unless the operator sets a price",
    checked: "",
    retired: false,
    simulated: false,
  };
  return { model, upstreamName: name };
}

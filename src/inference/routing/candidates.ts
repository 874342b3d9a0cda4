// The accounts that a model can be called on at its provider. The caller's own provider key comes first, then the gateway's.
// Which models and providers come into question at all is a matter of routing.

import { Fault, invalid } from "../../base/fault.ts";
import type { Secret } from "../../base/secret.ts";
import type { Catalog, ResolvedModel, Model } from "../../models/catalog.ts";
import { datedCard } from "../../models/price-card.ts";
import type { Provider, RelayedWire, UpstreamWire } from "../providers/providers.ts";
import type { Credential } from "../providers/credentials.ts";

export interface Candidate {
  /** The wires that the provider can be called on: the caller's own first where it has it, else in order of preference. */
  readonly wires: readonly [UpstreamWire, ...UpstreamWire[]];
  readonly model: Model;
  /** What the provider calls the model. */
  readonly upstreamName: string;
  readonly credential: Credential;
  /** Which conversation this is a turn of, where it matters who answered the turn before. */
  readonly stickyKey?:
    | { readonly conversation: string; readonly requestedModel: string }
    | undefined;
}

export interface CallerProviderKey {
  readonly id: string;
  readonly apiKey: Secret;
}

interface ProviderAccount {
  readonly provider: Provider;
  readonly credential: Credential | undefined;
  readonly baseUrl: string;
}

export interface CandidateDeps {
  /** The provider's row and the gateway's account there, if it has one. */
  readonly accountAt: (id: string) => ProviderAccount | undefined;
  readonly findRoute: FindRoute;
  readonly findProviderKey: FindProviderKey;
}

/** The account's own key at a provider: at once, where it was read a moment ago. */
export type FindProviderKey = (
  accountId: string,
  providerId: string,
) => CallerProviderKey | undefined | Promise<CallerProviderKey | undefined>;

const API_ENDPOINTS: Readonly<Record<string, string>> = {
  chat: "POST /v1/chat/completions",
  responses: "POST /v1/responses",
  messages: "POST /v1/messages",
  embeddings: "POST /v1/embeddings",
};

/** Who asks for a model, and in which API. */
export interface CandidateQuery {
  readonly wire: RelayedWire;
  readonly accountId: string;
  readonly catalog: Catalog;
}

export type Candidates = readonly [Candidate, ...Candidate[]];

/** The accounts on which this model can be called, in the order of trying them; a fault where there is none. */
export function candidatesForModel(
  found: ResolvedModel,
  { wire, accountId, catalog }: CandidateQuery,
  deps: CandidateDeps,
): Candidates | Promise<Candidates> {
  const route = deps.findRoute(found, wire, catalog);
  const providerKey = deps.findProviderKey(accountId, found.model.provider);
  return providerKey instanceof Promise
    ? providerKey.then((key) => withProviderKey(route, found, key))
    : withProviderKey(route, found, providerKey);
}

function withProviderKey(
  { wires, account, gatewayCandidates }: CachedRoute,
  { model, upstreamName }: ResolvedModel,
  providerKey: CallerProviderKey | undefined,
): Candidates {
  if (providerKey === undefined) {
    if (gatewayCandidates === undefined)
      throw providerNotConfigured([
        { id: model.provider, acceptsCallerKeys: acceptsCallerKeys(account) },
      ]);
    return gatewayCandidates;
  }
  const byokCandidate: Candidate = {
    wires,
    model,
    upstreamName,
    credential: {
      provider: account.provider,
      baseUrl: account.baseUrl,
      apiKey: providerKey.apiKey,
      label: providerKey.id,
      byok: true,
      ...(account.credential?.inProcess === undefined
        ? {}
        : { inProcess: account.credential.inProcess }),
    },
  };
  return [byokCandidate, ...(gatewayCandidates ?? [])];
}

/** What calling a model comes to, whoever calls. */
interface CachedRoute {
  readonly wires: Candidate["wires"];
  readonly account: ProviderAccount;
  /** On the gateway's own account, where it has one. */
  readonly gatewayCandidates: readonly [Candidate] | undefined;
}

const CACHED_ROUTES_MAX = 1_000;

/** Finds the way to a model on a wire; a fault where there is none. */
export type FindRoute = (found: ResolvedModel, wire: RelayedWire, catalog: Catalog) => CachedRoute;

// A catalog never changes, and neither do the gateway's accounts while it lasts: a way is found once.
export function createRouteCache(accountAt: CandidateDeps["accountAt"]): FindRoute {
  let routes = new Map<string, CachedRoute>();
  let cachedCatalog: Catalog | undefined;
  return (found, wire, catalog) => {
    if (catalog !== cachedCatalog) routes = new Map();
    cachedCatalog = catalog;
    const name = `${wire} ${found.model.id} ${found.upstreamName}`;
    const cached = routes.get(name);
    if (cached !== undefined) return cached;
    const route = computeRoute(found, wire, accountAt);
    if (routes.size >= CACHED_ROUTES_MAX) routes.clear();
    routes.set(name, route);
    return route;
  };
}

function computeRoute(
  { model, upstreamName }: ResolvedModel,
  wire: RelayedWire,
  accountAt: CandidateDeps["accountAt"],
): CachedRoute {
  const account = accountAt(model.provider);
  if (account === undefined)
    throw providerNotConfigured([{ id: model.provider, acceptsCallerKeys: false }]);
  const wires = wiresFor(model, account.provider, wire);
  const { credential } = account;
  const gatewayCandidates = credential && ([{ wires, model, upstreamName, credential }] as const);
  return { wires, account, gatewayCandidates };
}

interface UnconfiguredProvider {
  readonly id: string;
  /** Whether callers can bring a key of their own there. */
  readonly acceptsCallerKeys: boolean;
}

function acceptsCallerKeys(account: ProviderAccount | undefined): boolean {
  return (
    account !== undefined &&
    !account.provider.isLocal &&
    account.provider.allowsCallerKeys !== false
  );
}

/** Of a name that several providers have: none of them is set up. */
export function noProviderConfigured(
  models: readonly Model[],
  accountAt: CandidateDeps["accountAt"],
): Fault {
  const ids = [...new Set(models.map(({ provider }) => provider))];
  return providerNotConfigured(
    ids.map((id) => ({ id, acceptsCallerKeys: acceptsCallerKeys(accountAt(id)) })),
  );
}

function providerNotConfigured(providers: readonly UnconfiguredProvider[]): Fault {
  const names = joinWithOr(providers);
  const keyProviders = providers.filter((one) => one.acceptsCallerKeys);
  const byokHint =
    keyProviders.length === 0
      ? ""
      : `, or add your own key for ${joinWithOr(keyProviders)} with POST /v1/provider-keys`;
  return new Fault("provider_not_configured", `no account at ${names}`, {
    message: `This gateway has no account at ${names}. Use another model${byokHint}.`,
    isCallerError: true,
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

function joinWithOr(providers: readonly UnconfiguredProvider[]): string {
  const ids = providers.map(({ id }) => id);
  return [ids.slice(0, -1).join(", "), ...ids.slice(-1)].filter((text) => text !== "").join(" or ");
}

const TRANSLATION_PREFERENCE: readonly UpstreamWire[] = [
  "messages",
  "responses",
  "gemini",
  "converse",
  "chat",
];

// The same wire is relayed; any other is translated to, the provider's own before those that it merely imitates.
function wiresFor(
  model: Model,
  provider: Provider,
  wire: RelayedWire,
): readonly [UpstreamWire, ...UpstreamWire[]] {
  const isOffered = (one: UpstreamWire): boolean => {
    const spoken = one === "count_tokens" ? "messages" : one;
    return model.wires.some((known) => known === spoken) && provider.paths[one] !== undefined;
  };
  // What an old model cannot do on this newer API, it may be brought to on the older one.
  if (isOffered(wire)) return wire === "responses" && isOffered("chat") ? [wire, "chat"] : [wire];
  const [other, ...more] = wire === "embeddings" ? [] : TRANSLATION_PREFERENCE.filter(isOffered);
  if (other !== undefined) return [other, ...more];
  const others = model.wires
    .filter((one) => API_ENDPOINTS[one] !== undefined && isOffered(one))
    .map((one) => API_ENDPOINTS[one] ?? one);
  const hint =
    others.length === 0
      ? "It cannot be called through this gateway."
      : `Call it with ${others.join(" or ")}.`;
  throw invalid("model", `${model.id} does not take this API. ${hint}`);
}

const FREE_CARD = datedCard({ tokens: { input: 0, output: 0 } });

// A server beside the gateway has whatever models its owner loaded, and costs nothing unless prices were set.
export function localModel(id: string, deps: CandidateDeps): ResolvedModel | undefined {
  const slash = id.indexOf("/");
  const provider = id.slice(0, Math.max(0, slash));
  const name = id.slice(slash + 1);
  if (name === "" || deps.accountAt(provider)?.provider.isLocal !== true) return undefined;
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
    prices: [FREE_CARD],
    source: "a local server, free unless the operator sets a price",
    checked: "",
    retired: false,
    simulated: false,
  };
  return { model, upstreamName: name };
}

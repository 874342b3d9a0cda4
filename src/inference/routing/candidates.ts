// The accounts on which a model can be called at its provider: the caller's own provider key first, then the gateway's
// account. Which models and providers are considered is decided in routing.ts.

import { TRANSLATION_PREFERENCE, WIRE_TRAITS } from "@postern/wires";
import type { Secret } from "../../base/crypto/secret.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { joinWithOr } from "../../base/text/format.ts";
import type { Caller } from "../../http/route.ts";
import { nameInRegion } from "../../models/bedrock-profiles.ts";
import { blankModel } from "../../models/blank-model.ts";
import type { Catalog, ResolvedModel, Model } from "../../models/catalog.ts";
import { datedCard } from "../../models/price-card.ts";
import type { Credential, ProviderAccount } from "../providers/credentials.ts";
import type { Provider, RelayedWire, UpstreamWire } from "../providers/providers.ts";

export interface Candidate {
  /** The wires to call the provider on: the caller's own if the provider has it, otherwise in order of preference. */
  readonly wires: readonly [UpstreamWire, ...UpstreamWire[]];
  readonly model: Model;
  /** The provider's name for the model. */
  readonly upstreamName: string;
  readonly credential: Credential;
  /** Identifies the conversation, if several providers may answer it. */
  readonly stickyKey?:
    | { readonly conversation: string; readonly requestedModel: string }
    | undefined;
}

interface CallerProviderKey {
  readonly id: string;
  readonly apiKey: Secret;
  readonly allowStore: boolean;
}

export interface CandidateDeps {
  /** The provider, with the gateway's account there if it has one. */
  readonly accountAt: (id: string) => ProviderAccount | undefined;
  readonly findRoute: FindRoute;
  readonly findProviderKey: FindProviderKey;
  /** Which of the gateway's keys at a provider a call goes to first. */
  readonly orderCredentials: (
    candidates: readonly Candidate[],
    accountId: string,
  ) => readonly Candidate[];
}

/** Finds the caller's own key for a provider; synchronous if it is cached. */
export type FindProviderKey = (
  caller: Caller,
  providerId: string,
) => CallerProviderKey | undefined | Promise<CallerProviderKey | undefined>;

const API_ENDPOINTS: Readonly<Record<string, string>> = {
  chat: "POST /v1/chat/completions",
  responses: "POST /v1/responses",
  messages: "POST /v1/messages",
  embeddings: "POST /v1/embeddings",
  images: "POST /v1/images/generations",
  image_edits: "POST /v1/images/edits",
  speech: "POST /v1/audio/speech",
  transcriptions: "POST /v1/audio/transcriptions",
  translations: "POST /v1/audio/translations",
  rerank: "POST /v1/rerank",
  moderations: "POST /v1/moderations",
  decisions: "POST /v1/decisions",
};

export interface CandidateQuery {
  readonly wire: RelayedWire;
  readonly caller: Caller;
  readonly catalog: Catalog;
}

export type Candidates = readonly [Candidate, ...Candidate[]];

/** The accounts on which this model can be called, in the order to try them. Throws a Fault if there is none. */
export function candidatesForModel(
  resolved: ResolvedModel,
  { wire, caller, catalog }: CandidateQuery,
  deps: CandidateDeps,
): Candidates | Promise<Candidates> {
  const route = deps.findRoute(resolved, wire, catalog);
  const { gatewayCandidates } = route;
  const ordered =
    gatewayCandidates.length > 1
      ? deps.orderCredentials(gatewayCandidates, caller.accountId)
      : gatewayCandidates;
  const providerKey = deps.findProviderKey(caller, resolved.model.provider);
  return providerKey instanceof Promise
    ? providerKey.then((key) => withProviderKey(route, resolved, ordered, key))
    : withProviderKey(route, resolved, ordered, providerKey);
}

function withProviderKey(
  { wires, upstreamName, account }: CachedRoute,
  { model }: ResolvedModel,
  gatewayCandidates: readonly Candidate[],
  providerKey: CallerProviderKey | undefined,
): Candidates {
  if (providerKey === undefined) {
    if (!isNonEmpty(gatewayCandidates))
      throw providerNotConfigured([
        { id: model.provider, acceptsCallerKeys: acceptsCallerKeys(account) },
      ]);
    return gatewayCandidates;
  }
  const { provider, baseUrl, inProcess } = account;
  const { id: label, apiKey, allowStore } = providerKey;
  const credential = { provider, baseUrl, apiKey, label, byok: true, allowStore };
  const byokCandidate: Candidate = {
    wires,
    model,
    upstreamName,
    credential: inProcess === undefined ? credential : { ...credential, inProcess },
  };
  return [byokCandidate, ...gatewayCandidates];
}

function isNonEmpty(candidates: readonly Candidate[]): candidates is Candidates {
  return candidates.length > 0;
}

/** The part of a model's candidates that is the same for all callers. */
interface CachedRoute {
  readonly wires: Candidate["wires"];
  readonly upstreamName: string;
  readonly account: ProviderAccount;
  /** One for each of the gateway's keys at the provider. */
  readonly gatewayCandidates: readonly Candidate[];
}

const CACHED_ROUTES_MAX = 1_000;

/** Finds how to call a model on a wire. Throws a Fault if that is not possible. */
export type FindRoute = (
  resolved: ResolvedModel,
  wire: RelayedWire,
  catalog: Catalog,
) => CachedRoute;

// A catalog is immutable and the gateway's accounts are fixed per catalog, so routes are cached until the catalog changes.
export function createRouteCache(accountAt: CandidateDeps["accountAt"]): FindRoute {
  let routes = new Map<string, CachedRoute>();
  let cachedCatalog: Catalog | undefined;
  return (resolved, wire, catalog) => {
    if (catalog !== cachedCatalog) routes = new Map();
    cachedCatalog = catalog;
    const key = `${wire} ${resolved.model.id} ${resolved.upstreamName}`;
    const cached = routes.get(key);
    if (cached !== undefined) return cached;
    const route = computeRoute(resolved, { wire, catalog }, accountAt);
    if (routes.size >= CACHED_ROUTES_MAX) routes.clear();
    routes.set(key, route);
    return route;
  };
}

function computeRoute(
  { model, upstreamName: requestedName }: ResolvedModel,
  { wire, catalog }: { readonly wire: RelayedWire; readonly catalog: Catalog },
  accountAt: CandidateDeps["accountAt"],
): CachedRoute {
  const account = accountAt(model.provider);
  if (account === undefined)
    throw providerNotConfigured([{ id: model.provider, acceptsCallerKeys: false }]);
  const wires = wiresFor(model, account.provider, wire, () => exampleOf(wire, catalog, accountAt));
  const { credentials, baseUrl } = account;
  const upstreamName =
    model.provider === "bedrock" ? nameInRegion(requestedName, baseUrl) : requestedName;
  const gatewayCandidates = credentials.map((credential) => ({
    wires,
    model,
    upstreamName,
    credential,
  }));
  return { wires, upstreamName, account, gatewayCandidates };
}

interface UnconfiguredProvider {
  readonly id: string;
  /** True if callers can add a key of their own there. */
  readonly acceptsCallerKeys: boolean;
}

function acceptsCallerKeys(account: ProviderAccount | undefined): boolean {
  return (
    account !== undefined &&
    !account.provider.isLocal &&
    account.provider.allowsCallerKeys !== false
  );
}

/** The fault if the gateway has no account at any provider of the requested model. */
export function noProviderConfigured(
  models: readonly Model[],
  accountAt: CandidateDeps["accountAt"],
  shutDown: string | undefined,
): Fault {
  const ids = [...new Set(models.map(({ provider }) => provider))];
  return providerNotConfigured(
    ids.map((id) => ({ id, acceptsCallerKeys: acceptsCallerKeys(accountAt(id)) })),
    shutDown,
  );
}

/** `shutDown` says which provider of the model has ended it. */
function providerNotConfigured(
  providers: readonly UnconfiguredProvider[],
  shutDown?: string,
): Fault {
  const names = joinWithOr(idsOf(providers));
  const keyProviders = providers.filter((provider) => provider.acceptsCallerKeys);
  const byokHint =
    keyProviders.length === 0
      ? ""
      : `, or add your own key for ${joinWithOr(idsOf(keyProviders))} with POST /v1/provider-keys`;
  return new Fault("provider_not_configured", `no account at ${names}`, {
    message: `${shutDown === undefined ? "" : `${shutDown} `}This gateway has no account at ${names}. Use another model${byokHint}.`,
    isCallerError: true,
    param: "model",
    next: [
      {
        method: "GET",
        url: "/v1/models",
        why: "List the models that can be called now.",
      },
    ],
  });
}

function idsOf(providers: readonly UnconfiguredProvider[]): readonly string[] {
  return providers.map(({ id }) => id);
}

// The caller's own wire is passed through. Otherwise the request is translated, preferably to the provider's own API and not
// to its imitation of another.
function wiresFor(
  model: Model,
  provider: Provider,
  wire: RelayedWire,
  example: () => string | undefined,
): readonly [UpstreamWire, ...UpstreamWire[]] {
  const isOffered = (candidate: UpstreamWire): boolean => {
    const { operation, base } = WIRE_TRAITS[candidate];
    const modelWire = operation === undefined ? candidate : base;
    return (
      model.wires.some((known) => known === modelWire) && provider.paths[candidate] !== undefined
    );
  };
  // An older model may support a feature only on chat, and web search only on responses.
  const { sibling, isReplaceable } = WIRE_TRAITS[wire];
  if (isOffered(wire))
    return sibling !== undefined && isOffered(sibling) ? [wire, sibling] : [wire];
  const [first, ...rest] = isReplaceable ? TRANSLATION_PREFERENCE.filter(isOffered) : [];
  if (first !== undefined) return [first, ...rest];
  const endpoints = model.wires
    .filter((known) => API_ENDPOINTS[known] !== undefined && isOffered(known))
    .map((known) => API_ENDPOINTS[known] ?? known);
  const hint =
    endpoints.length === 0
      ? "This gateway cannot call it."
      : `Use ${joinWithOr(endpoints)} instead.`;
  const other = isReplaceable ? undefined : example();
  const otherHint = other === undefined ? "" : ` A model that supports it: ${other}.`;
  throw invalid("model", `${model.id} does not support this API. ${hint}${otherHint}`);
}

/** A model that the gateway's accounts can call on this wire. */
function exampleOf(
  wire: RelayedWire,
  { models }: Catalog,
  accountAt: CandidateDeps["accountAt"],
): string | undefined {
  return models.find(({ provider, wires }) => {
    const account = accountAt(provider);
    return (
      wires.some((known) => known === wire) &&
      account !== undefined &&
      account.credentials.length > 0 &&
      account.provider.paths[wire] !== undefined
    );
  })?.id;
}

const FREE_CARD = datedCard({ tokens: { input: 0, output: 0 } });

// A local server may have any model loaded, so unknown names are passed to it. It is free unless the operator sets prices.
export function localModel(id: string, deps: CandidateDeps): ResolvedModel | undefined {
  const slash = id.indexOf("/");
  const provider = id.slice(0, Math.max(0, slash));
  const name = id.slice(slash + 1);
  if (name === "" || deps.accountAt(provider)?.provider.isLocal !== true) return undefined;
  const model: Model = {
    ...blankModel(id),
    wires: ["chat", "embeddings", "rerank"],
    prices: [FREE_CARD],
    source: "a local server, free unless the operator sets a price",
    checked: "",
  };
  return { model, upstreamName: name };
}

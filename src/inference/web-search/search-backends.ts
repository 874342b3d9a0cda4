// The search APIs that answer the gateway's own web searches. What they return is data of strangers: it is bounded here, and
// only pages that the caller allows are kept.

import type { GatewaySearch, SearchSource } from "@postern/wires";
import type { Secret } from "../../base/crypto/secret.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  objectIn,
  parseObject,
  stringIn,
} from "../../base/json.ts";
import { withoutRootLabel } from "../../base/network/public-address.ts";
import { SECOND_MS } from "../../base/time.ts";

export interface SearchBackendSetting {
  readonly backend: SearchBackendName;
  readonly apiKey?: Secret | undefined;
  readonly baseUrl?: string | undefined;
}

export const SEARCH_BACKENDS = ["brave", "exa", "tavily", "searxng", "simulator"] as const;
export type SearchBackendName = (typeof SEARCH_BACKENDS)[number];

export type SearchSettings = Pick<GatewaySearch, "allowedDomains" | "blockedDomains" | "country">;

export interface SearchQuery extends SearchSettings {
  readonly query: string;
  readonly signal: AbortSignal;
}

/** Throws if the search failed; its error is for the log. */
export type SearchWeb = (query: SearchQuery) => Promise<readonly SearchSource[]>;

const RESULTS_MAX = 5;
const TIMEOUT_MS = 15 * SECOND_MS;
const REPLY_MAX_BYTES = 2_000_000;
// No token is shorter than a byte, so these limits keep a search below `GATEWAY_SEARCH_TOKENS`, which are held for it.
const TITLE_MAX_BYTES = 200;
const URL_MAX_LENGTH = 400;
const CONTENT_MAX_BYTES = 900;
const DATE_MAX_LENGTH = 40;

interface BackendForm {
  readonly baseUrl?: string;
  readonly request: (
    query: SearchQuery,
    options: { readonly baseUrl: string; readonly apiKey: string },
  ) => { readonly url: string; readonly init: RequestInit };
  readonly read: (body: JsonObject) => readonly SearchSource[];
}

const BACKENDS: Readonly<Record<Exclude<SearchBackendName, "simulator">, BackendForm>> = {
  brave: {
    baseUrl: "https://api.search.brave.com",
    request: (query, { baseUrl, apiKey }) => ({
      url: withParameters(`${baseUrl}/res/v1/web/search`, {
        q: braveQuery(query),
        count: String(RESULTS_MAX),
        extra_snippets: "true",
        country: query.country,
      }),
      init: { headers: { accept: "application/json", "x-subscription-token": apiKey } },
    }),
    read: (body) =>
      listIn(objectIn(body["web"])?.["results"]).map((one) => ({
        url: textIn(one["url"]),
        title: stringIn(one["title"]),
        content: [
          textIn(one["description"]),
          ...arrayIn(one["extra_snippets"]).map((snippet) => textIn(snippet)),
        ]
          .join("\n")
          .replaceAll(/<\/?strong>/g, ""),
        age: stringIn(one["page_age"]),
      })),
  },
  exa: {
    baseUrl: "https://api.exa.ai",
    request: (query, { baseUrl, apiKey }) =>
      post(
        `${baseUrl}/search`,
        { "x-api-key": apiKey },
        {
          query: query.query,
          numResults: RESULTS_MAX,
          includeDomains: optionalList(query.allowedDomains),
          excludeDomains: optionalList(query.blockedDomains),
          userLocation: query.country,
          contents: { text: { maxCharacters: CONTENT_MAX_BYTES } },
        },
      ),
    read: (body) =>
      listIn(body["results"]).map((one) => ({
        url: textIn(one["url"]),
        title: stringIn(one["title"]),
        content: textIn(one["text"]),
        age: stringIn(one["publishedDate"]),
      })),
  },
  tavily: {
    baseUrl: "https://api.tavily.com",
    request: (query, { baseUrl, apiKey }) =>
      post(
        `${baseUrl}/search`,
        { authorization: `Bearer ${apiKey}` },
        {
          query: query.query,
          max_results: RESULTS_MAX,
          include_domains: optionalList(query.allowedDomains),
          exclude_domains: optionalList(query.blockedDomains),
        },
      ),
    read: (body) =>
      listIn(body["results"]).map((one) => ({
        url: textIn(one["url"]),
        title: stringIn(one["title"]),
        content: textIn(one["content"]),
        age: stringIn(one["published_date"]),
      })),
  },
  searxng: {
    request: (query, { baseUrl, apiKey }) => ({
      url: withParameters(`${baseUrl}/search`, { q: withOperators(query), format: "json" }),
      init: { headers: apiKey === "" ? {} : { authorization: `Bearer ${apiKey}` } },
    }),
    read: (body) =>
      listIn(body["results"]).map((one) => ({
        url: textIn(one["url"]),
        title: stringIn(one["title"]),
        content: textIn(one["content"]),
        age: stringIn(one["publishedDate"]),
      })),
  },
};

export function createSearchBackend(setting: SearchBackendSetting): SearchWeb {
  const { backend, apiKey, baseUrl } = setting;
  const found =
    backend === "simulator"
      ? (query: SearchQuery) => Promise.resolve(simulatedResults(query))
      : (query: SearchQuery) =>
          searchAt(BACKENDS[backend], query, {
            baseUrl: (baseUrl ?? BACKENDS[backend].baseUrl ?? "").replace(/(?<!\/)\/+$/, ""),
            apiKey: apiKey?.reveal() ?? "",
          });
  return async (query) => boundedSources(await found(query), query);
}

async function searchAt(
  form: BackendForm,
  query: SearchQuery,
  options: { readonly baseUrl: string; readonly apiKey: string },
): Promise<readonly SearchSource[]> {
  const { url, init } = form.request(query, options);
  const signal = AbortSignal.any([query.signal, AbortSignal.timeout(TIMEOUT_MS)]);
  // A redirect could lead the key to another host.
  const response = await fetch(url, { ...init, signal, redirect: "error" });
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`the search backend answered ${response.status}`);
  }
  const body = parseObject(await boundedText(response));
  if (body === undefined) throw new Error("the search backend did not answer with a JSON object");
  return form.read(body);
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > REPLY_MAX_BYTES) throw new Error("the reply of the search backend is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function boundedSources(
  sources: readonly SearchSource[],
  settings: SearchSettings,
): readonly SearchSource[] {
  return sources
    .filter(({ url }) => isAllowedPage(url, settings))
    .slice(0, RESULTS_MAX)
    .map(({ url, title, content = "", age }) => ({
      url: new URL(url).href,
      title: title && cutBytes(title, TITLE_MAX_BYTES),
      content: cutBytes(content, CONTENT_MAX_BYTES),
      age: age?.slice(0, DATE_MAX_LENGTH).toWellFormed(),
    }));
}

/** The backend may ignore the caller's lists. An entry is a host with its subdomains, and may end with a path. */
export function isAllowedPage(
  url: string,
  { allowedDomains, blockedDomains }: Pick<SearchSettings, "allowedDomains" | "blockedDomains">,
): boolean {
  if (!URL.canParse(url)) return false;
  const page = new URL(url);
  if (page.href.length > URL_MAX_LENGTH) return false;
  if (page.protocol !== "https:" && page.protocol !== "http:") return false;
  const matches = (entry: string): boolean => matchesDomain(page, entry);
  if (blockedDomains.some(matches)) return false;
  return allowedDomains.length === 0 || allowedDomains.some(matches);
}

function matchesDomain(page: URL, entry: string): boolean {
  const listed = URL.parse(`https://${entry.replace(/^https?:\/\//i, "")}`);
  if (listed === null) return false;
  const [host, own] = [nameOf(listed), nameOf(page)];
  const isHost = own === host || own.endsWith(`.${host}`);
  return isHost && page.pathname.toLowerCase().startsWith(listed.pathname.toLowerCase());
}

function nameOf({ hostname }: URL): string {
  return withoutRootLabel(hostname);
}

/** Cuts at a whole character. Providers refuse a body with half of a character, so the text has none. */
export function cutBytes(text: string, max: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= max) return text.toWellFormed();
  return bytes
    .subarray(0, max)
    .toString()
    .replace(/\uFFFD{1,3}$/, "");
}

/** For engines that know lists of domains only as operators in the query. */
function withOperators({ query, allowedDomains, blockedDomains }: SearchQuery): string {
  const sites = allowedDomains.map((domain) => `site:${domain}`).join(" OR ");
  return [query, sites, ...blockedDomains.map((domain) => `-site:${domain}`)]
    .filter((one) => one !== "")
    .join(" ");
}

/** Brave refuses longer queries. */
const BRAVE_QUERY_MAX = { length: 400, words: 50 } as const;

/** Without the operators where they are too long: pages that the caller does not allow are dropped in any case. */
function braveQuery(query: SearchQuery): string {
  const { length, words } = BRAVE_QUERY_MAX;
  const whole = withOperators(query);
  const isShort = whole.length <= length && whole.split(/\s+/).length <= words;
  return isShort ? whole : query.query.split(/\s+/).slice(0, words).join(" ").slice(0, length);
}

function withParameters(
  url: string,
  parameters: Readonly<Record<string, string | undefined>>,
): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined) search.set(name, value);
  return `${url}?${search.toString()}`;
}

function post(
  url: string,
  headers: Record<string, string>,
  body: JsonObject,
): { readonly url: string; readonly init: RequestInit } {
  return {
    url,
    init: {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    },
  };
}

function optionalList(list: readonly string[]): readonly string[] | undefined {
  return list.length === 0 ? undefined : list;
}

function listIn(value: unknown): readonly JsonObject[] {
  return arrayIn(value).filter(isObject);
}

function textIn(value: unknown): string {
  return stringIn(value) ?? "";
}

/** For development and tests: three pages about the query. */
function simulatedResults({ query }: SearchQuery): readonly SearchSource[] {
  return ["docs.example.com", "news.example.org", "wiki.example.net"].map((host, index) => ({
    url: `https://${host}/${encodeURIComponent(query.slice(0, 100)).replaceAll(/[()]/g, "")}`,
    title: `Simulated page ${index + 1}`,
    content: `This page of the simulator is about: ${query}.`,
    age: "2026-11-28",
  }));
}

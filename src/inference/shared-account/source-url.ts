// Which URLs of images and files may be sent on the gateway's own provider accounts. Providers read some URLs with the
// permissions of the account: objects in cloud storage, and files at their own API.

import { WIRE_TRAITS } from "@postern/wires";
import { isPublicHostname, withoutRootLabel } from "../../base/network/public-address.ts";
import type { Credential } from "../providers/credentials.ts";
import { PROVIDERS, type Provider, type UpstreamWire } from "../providers/providers.ts";

/** Enough of a long value to tell base64 from a URL. */
const PREFIX_LENGTH = 8_192;
const BASE64_PREFIX = /^[A-Za-z0-9+/_=\r\n-]*$/;
// C0 controls and space: URL parsers strip them at the ends, and tabs and line breaks everywhere.
const CONTROL_CHARACTER = /[\p{Cc}\p{Zs}]/u;
export const RESOURCE_NAME =
  /^[^A-Za-z0-9]*(?:(?:files|cachedContents|fileSearchStores|ragCorpora|corpora|tunedModels)\/|projects\/[^/]+\/|file[-_][A-Za-z0-9]{6}|arn:)/i;
const STORAGE_VALUE =
  /^[^A-Za-z0-9]*(?:(?:gs|s3):|(?:gcs|s3a|s3n|abfss?|wasbs?|azure|oss|cos|tos|bos|obs|file):\/\/|arn:aws|(?:cachedContents|fileSearchStores|ragCorpora|corpora)\/|projects\/[^/\s]+\/locations\/)/i;

/** Google reads these with the account's permissions, also through other hosts than its API. */
const GOOGLE_HOSTS = /(?:^|\.)(?:googleapis\.com|cloud\.google\.com|(?:drive|docs)\.google\.com)$/;
const STORAGE_API_HOSTS =
  /(?:^|[.-])(?:generativelanguage|aiplatform)\.googleapis\.com$|^storage\.cloud\.google\.com$/;
const PROVIDER_HOSTS: ReadonlySet<string> = new Set(
  PROVIDERS.flatMap(({ baseUrl }) => URL.parse(baseUrl)?.hostname ?? []),
);
const GOOGLE_PROVIDERS: ReadonlySet<string> = new Set(["google", "vertex"]);

export interface Destination {
  readonly provider: Provider;
  readonly baseUrl: string;
  readonly wire: UpstreamWire;
  /** Whether fields, types and tools that the gateway does not know may be sent. */
  readonly allowsUnknown: boolean;
}

/** Undefined on the caller's own provider key, with which everything may be used. */
export function destinationOf(
  credential: Pick<Credential, "provider" | "baseUrl" | "byok" | "allowsUnknown">,
  wire: UpstreamWire,
): Destination | undefined {
  const { provider, baseUrl, byok } = credential;
  if (byok) return undefined;
  // Requests to these APIs are always translated, and their writers write known fields and functions only.
  const isWritten = WIRE_TRAITS[wire].isAlwaysWritten;
  return { provider, baseUrl, wire, allowsUnknown: isWritten || credential.allowsUnknown === true };
}

/** Whether a string is a reference to storage, wherever it stands. */
export function isStorageValue(value: string): boolean {
  return (value.includes(":") || value.includes("/")) && STORAGE_VALUE.test(value);
}

/**
 * Whether an image or file may come from here: base64, a `data:` URL, or an `http:` or `https:` URL of another host than
 * the provider's. What is only possibly a source (`isCertainlySource` is false) may be any other text.
 */
export function isAllowedSource(
  value: string,
  isCertainlySource: boolean,
  destination: Destination,
): boolean {
  if (/^data:/i.test(value)) return true;
  if (isStorageValue(value) || (isCertainlySource && RESOURCE_NAME.test(value))) return false;
  if (BASE64_PREFIX.test(value.slice(0, PREFIX_LENGTH))) return true;
  const url = URL.parse(value);
  if (url === null) return !isCertainlySource;
  if (isStorageValue(url.href) || isBlockedHost(hostOf(url), destination)) return false;
  if (!isCertainlySource) return true;
  const isWeb = url.protocol === "https:" || url.protocol === "http:";
  return (
    isWeb &&
    url.username === "" &&
    url.password === "" &&
    // The operator's own servers fetch images in the operator's network.
    isPublicHostname(url.hostname) &&
    !CONTROL_CHARACTER.test(value)
  );
}

function isBlockedHost(host: string, { provider, baseUrl, wire }: Destination): boolean {
  if (STORAGE_API_HOSTS.test(host) || PROVIDER_HOSTS.has(host)) return true;
  if (
    (WIRE_TRAITS[wire].readsGoogleStorage || GOOGLE_PROVIDERS.has(provider.id)) &&
    GOOGLE_HOSTS.test(host)
  )
    return true;
  const own = URL.parse(baseUrl);
  return host !== "" && own !== null && host === hostOf(own);
}

function hostOf({ hostname }: URL): string {
  return withoutRootLabel(hostname);
}

// Fetches one image or document from a public web server, following redirects. Problems are sentences for the caller, and
// say nothing about ports, addresses or names: otherwise requests could scan a network.

import { isUtf8 } from "node:buffer";
import type { FetchedFile } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { type ResolveHost, parseEndpoint } from "../../base/network/public-endpoint.ts";
import { type PublicUrlResponse, getPublicUrl } from "../../base/network/public-url.ts";
import type { FileKind } from "./file-urls.ts";

/** Bedrock's limits of one image and one document. */
const BYTES_MAX: Readonly<Record<FileKind, number>> = { image: 3_750_000, document: 4_500_000 };
const REDIRECTS_MAX = 3;
const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const ACCEPT: Readonly<Record<FileKind, string>> = {
  image: "image/png,image/jpeg,image/gif,image/webp",
  document: "application/pdf,text/plain,text/markdown,text/csv,text/html",
};

export interface FileRequest {
  readonly url: string;
  readonly kind: FileKind;
  readonly signal: AbortSignal;
  /** Called before each request, also that of a redirect. An error that it throws ends the fetch. */
  readonly onRequest: (url: string) => void;
  readonly onBytes: (bytes: number) => void;
}

/** Throws only the errors of `onRequest` and `onBytes`. */
export type FetchFile = (request: FileRequest) => Promise<FetchedFile>;

export interface FetchFileDeps {
  readonly resolve: ResolveHost;
  /** Tests only. */
  readonly allowLoopback?: boolean;
}

export function createFetchFile(deps: FetchFileDeps): FetchFile {
  return async (request) => {
    try {
      return await fetchFile(deps, request);
    } catch (error) {
      if (error instanceof Fault) throw error;
      return failedFile(request.signal.aborted ? "did not arrive in time" : "could not be fetched");
    }
  };
}

async function fetchFile(deps: FetchFileDeps, request: FileRequest): Promise<FetchedFile> {
  const { kind, onRequest, ...rest } = request;
  let url = request.url;
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects += 1) {
    const endpoint = parseEndpoint(url, deps.allowLoopback === true);
    if (typeof endpoint === "string")
      return failedFile(`could not be fetched: its URL ${endpoint}`);
    onRequest(url);
    const reply = await getPublicUrl({
      ...rest,
      endpoint,
      accept: ACCEPT[kind],
      userAgent: "Postern-Fetch",
      bytesMax: BYTES_MAX[kind],
      resolve: deps.resolve,
    });
    if (reply.status === 200) return fileFrom(reply, kind);
    const { location } = reply;
    if (location === undefined || !REDIRECT_STATUSES.has(reply.status))
      return failedFile(`could not be fetched: its server returned ${reply.status}`);
    if (!URL.canParse(location, url)) return failedFile("could not be fetched");
    const next = new URL(location, url);
    next.hash = "";
    url = next.href;
  }
  return failedFile(`could not be fetched: more than ${REDIRECTS_MAX} redirects`);
}

function fileFrom({ body, contentType }: PublicUrlResponse, kind: FileKind): FetchedFile {
  if (body === undefined) return failedFile(`is larger than ${BYTES_MAX[kind] / 1_000_000} MB`);
  const mediaType = mediaTypeOf(body, contentType);
  if (mediaType === undefined) return failedFile("is not an image, a PDF or text");
  return { mediaType, data: body.toString("base64") };
}

function failedFile(what: string): FetchedFile {
  return { problem: `The file at this URL ${what}. Send the content as base64.` };
}

// The media type of a fetched file. Servers often send the wrong one, so the first bytes decide where the format has a
// signature; text has none.
const SIGNATURES: readonly (readonly [mediaType: string, pattern: RegExp])[] = [
  ["image/png", /^\x89PNG\r\n/],
  ["image/jpeg", /^\xff\xd8\xff/],
  ["image/gif", /^GIF8[79]a/],
  ["image/webp", /^RIFF[^]{4}WEBP/],
  ["application/pdf", /^%PDF-/],
];
const SIGNATURE_MAX_BYTES = 16;

const TEXT_TYPES: ReadonlySet<string> = new Set([
  "text/plain",
  "text/markdown",
  "text/csv",
  "text/html",
]);

/** Undefined for a file that is no image, PDF or text. */
export function mediaTypeOf(body: Buffer, contentType: string): string | undefined {
  const start = body.toString("latin1", 0, SIGNATURE_MAX_BYTES);
  const found = SIGNATURES.find(([, pattern]) => pattern.test(start));
  if (found !== undefined) return found[0];
  const declared = contentType.split(";")[0]?.trim().toLowerCase() ?? "";
  return TEXT_TYPES.has(declared) && isText(body) ? declared : undefined;
}

function isText(body: Buffer): boolean {
  return isUtf8(body) && !body.includes(0);
}

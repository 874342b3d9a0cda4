// The clients that may ask for a sign-in. A registered client's id contains its registration, authenticated by the gateway (RFC
// 7591, appendix A.5.2), so registrations need no table. An id that is a URL names a metadata document, which is fetched.

import { z } from "zod";
import {
  deriveKey,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { timingSafeEqualText } from "../base/crypto/secret.ts";
import { parseJson } from "../base/json.ts";
import { parseEndpoint, type ResolveHost } from "../base/network/public-endpoint.ts";
import { getPublicUrl } from "../base/network/public-url.ts";
import { replaceUnsafe } from "../base/text/safe-text.ts";
import { problemOfRedirectUri } from "./redirect-uris.ts";

const ID_PREFIX = "mcp_";
/** With the rest of a request, it has to fit the path to which a sign-in returns. */
const CLIENT_ID_MAX_CHARACTERS = 1_000;
export const REDIRECT_URIS_MAX = 10;
const NAME_MAX_CHARACTERS = 60;
const DOCUMENT_MAX_BYTES = 65_536;
const FETCH_TIMEOUT_MS = 5_000;
const UNNAMED = "An MCP client";

export interface McpClient {
  readonly id: string;
  /** What the client calls itself. */
  readonly name: string;
  readonly redirectUris: readonly string[];
  /** The host of its metadata document, which proves who it is; undefined for a registered client. */
  readonly host: string | undefined;
}

export interface McpClients {
  /** The id of a new client; undefined if it would be too long. */
  readonly register: (
    name: string | undefined,
    redirectUris: readonly string[],
  ) => McpClient | undefined;
  /** Returns a sentence that says what is wrong if there is no such client. */
  readonly find: (clientId: string) => Promise<McpClient | string>;
}

const Registration = z.object({ n: z.string(), r: z.array(z.string()) });

const ClientDocument = z.looseObject({
  client_id: z.string(),
  client_name: z.string(),
  redirect_uris: z
    .array(z.string())
    .min(1)
    .max(REDIRECT_URIS_MAX * 5),
  client_secret: z.never().optional(),
});

interface McpClientsDeps {
  readonly master: MasterSecret;
  readonly resolve: ResolveHost;
  /** Documents on the gateway's own machine; only in development. */
  readonly allowLoopback: boolean;
  readonly hasDocuments: boolean;
}

export function createMcpClients({
  master,
  resolve,
  allowLoopback,
  hasDocuments,
}: McpClientsDeps): McpClients {
  const key = deriveKey(master, "mcp-sign-in/client-id/v1");
  return {
    register: (name, redirectUris) => {
      const shown = clientName(name);
      const registration = Buffer.from(JSON.stringify({ n: shown, r: redirectUris })).toString(
        "base64url",
      );
      const id = `${ID_PREFIX}${registration}.${fingerprint(key, registration)}`;
      return id.length > CLIENT_ID_MAX_CHARACTERS
        ? undefined
        : { id, name: shown, redirectUris, host: undefined };
    },
    find: async (clientId) => {
      if (hasDocuments && /^https?:\/\//i.test(clientId))
        return await fetchClient(clientId, { resolve, allowLoopback });
      const [registration = "", mac = ""] = clientId.slice(ID_PREFIX.length).split(".");
      const isOurs =
        clientId.startsWith(ID_PREFIX) &&
        fingerprints(key, registration).some((expected) => timingSafeEqualText(expected, mac));
      if (!isOurs)
        return "The client is not registered here. Remove this server from your MCP client and add it again.";
      const { n, r } = Registration.parse(
        parseJson(Buffer.from(registration, "base64url").toString()),
      );
      return { id: clientId, name: n, redirectUris: r, host: undefined };
    },
  };
}

/** The error is the same for every document that cannot be read: a reason would reveal the gateway's own network. */
async function fetchClient(
  clientId: string,
  { resolve, allowLoopback }: Pick<McpClientsDeps, "resolve" | "allowLoopback">,
): Promise<McpClient | string> {
  const endpoint = parseEndpoint(clientId, allowLoopback);
  if (typeof endpoint === "string") return `The \`client_id\` ${endpoint}.`;
  const { pathname, href, host } = endpoint.url;
  if (pathname === "/" || href !== clientId)
    return "The `client_id` must be a URL with a path, in its normal form.";
  const response = await getPublicUrl({
    endpoint,
    accept: "application/json",
    bytesMax: DOCUMENT_MAX_BYTES,
    resolve,
    signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
  }).catch(() => undefined);
  if (response?.status !== 200 || response.body === undefined)
    return `The metadata document of the client at ${host} could not be read.`;
  const parsed = ClientDocument.safeParse(parseJson(response.body.toString("utf8")));
  if (!parsed.success || parsed.data.client_id !== clientId)
    return `The metadata document of the client at ${host} is not valid: it needs its own URL as \`client_id\`, \`client_name\` and \`redirect_uris\`.`;
  const redirectUris = parsed.data.redirect_uris.filter(
    (uri) => problemOfRedirectUri(uri) === undefined,
  );
  return { id: clientId, name: clientName(parsed.data.client_name), redirectUris, host };
}

/** The name of the client, which the person sees and which becomes the name of the key. */
function clientName(given: string | undefined): string {
  const name = replaceUnsafe(given ?? "")
    .trim()
    .slice(0, NAME_MAX_CHARACTERS)
    .trim();
  return name === "" ? UNNAMED : name;
}

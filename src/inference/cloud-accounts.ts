// The clouds' accounts: addresses with a region or a project in them, and how requests to them are signed.

import type { ProviderSetting } from "../provider-settings.ts";
import type { Authorize } from "./authorize.ts";
import { authorizeAws } from "./authorize-aws.ts";
import { authorizeGoogle, readServiceAccount, vertexHost } from "./authorize-google.ts";
import type { Provider } from "./providers.ts";

const ORIGIN = /^https:\/\/[^/]+/;

/** Where a provider is; empty where a part of its address is not known. */
export function addressOf(provider: Provider, setting: ProviderSetting | undefined): string {
  const path = provider.baseUrl.replace(ORIGIN, "");
  const moved = setting?.baseUrl;
  if (moved !== undefined && !path.includes("{")) return moved;
  const template = moved === undefined ? provider.baseUrl : moved + path;
  const filled = template.replaceAll(
    /\{([A-Z_]+)\}/g,
    (hole, name: string) => valueOf(name, provider, setting) ?? hole,
  );
  return filled.includes("{") ? "" : filled;
}

export function authorizeFor(
  provider: Provider,
  setting: ProviderSetting,
  now: () => number,
): Authorize | undefined {
  const { plain = {}, secrets = {} } = setting;
  if (provider.signsWith === "google") {
    const account = readServiceAccount(secrets["CREDENTIALS"]?.reveal() ?? "");
    const tokenUrl = plain["TOKEN_URL"];
    return account === undefined
      ? undefined
      : authorizeGoogle(account, { now, ...(tokenUrl === undefined ? {} : { tokenUrl }) });
  }
  const accessKeyId = plain["ACCESS_KEY_ID"];
  const secretAccessKey = secrets["SECRET_ACCESS_KEY"];
  // A Bedrock API key goes into a header like any other.
  if (provider.signsWith !== "aws" || setting.apiKey !== undefined) return undefined;
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  const region = valueOf("REGION", provider, setting) ?? "";
  return authorizeAws(
    { region, accessKeyId, secretAccessKey, sessionToken: secrets["SESSION_TOKEN"] },
    now,
  );
}

function valueOf(
  name: string,
  provider: Provider,
  setting: ProviderSetting | undefined,
): string | undefined {
  if (name === "HOST") return vertexHost(valueOf("LOCATION", provider, setting) ?? "");
  const set = setting?.plain?.[name];
  if (set !== undefined) return set;
  if (name === "PROJECT")
    return readServiceAccount(setting?.secrets?.["CREDENTIALS"]?.reveal() ?? "")?.project_id;
  return provider.settings?.find((one) => one.name === name)?.fallback;
}

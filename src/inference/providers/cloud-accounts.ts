// Cloud accounts (AWS, Google): base URLs with a region or project, and their request signing.

import { AwsV4Signer } from "aws4fetch";
import type { Secret } from "../../base/crypto/secret.ts";
import { createGoogleAuthorizer, readServiceAccount, vertexHost } from "./authorize-google.ts";
import type { Authorizer } from "./authorizer.ts";
import type { ProviderSetting } from "./provider-setting.ts";
import type { Provider } from "./providers.ts";

const ORIGIN = /^https:\/\/[^/]+/;

/** A provider's base URL; empty if a placeholder in it has no value. */
export function providerBaseUrl(provider: Provider, setting: ProviderSetting | undefined): string {
  const path = provider.baseUrl.replace(ORIGIN, "");
  const override = setting?.baseUrl;
  if (override !== undefined && !path.includes("{")) return override;
  const template = override === undefined ? provider.baseUrl : override + path;
  const resolved = template.replaceAll(
    /\{([A-Z_]+)\}/g,
    (placeholder, name: string) => settingValue(name, provider, setting) ?? placeholder,
  );
  return resolved.includes("{") ? "" : resolved;
}

export function authorizerFor(
  provider: Provider,
  setting: ProviderSetting,
  now: () => number,
): Authorizer | undefined {
  const { plain = {}, secrets = {} } = setting;
  if (provider.cloudAuth === "google") {
    const account = readServiceAccount(secrets["CREDENTIALS"]?.reveal() ?? "");
    const tokenUrl = plain["TOKEN_URL"];
    return account === undefined
      ? undefined
      : createGoogleAuthorizer(account, { now, ...(tokenUrl === undefined ? {} : { tokenUrl }) });
  }
  const accessKeyId = plain["ACCESS_KEY_ID"];
  const secretAccessKey = secrets["SECRET_ACCESS_KEY"];
  // A Bedrock API key is sent as a bearer token, so it needs no signing.
  if (provider.cloudAuth !== "aws" || setting.apiKey !== undefined) return undefined;
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  const region = settingValue("REGION", provider, setting) ?? "";
  return createAwsAuthorizer(
    { region, accessKeyId, secretAccessKey, sessionToken: secrets["SESSION_TOKEN"] },
    now,
  );
}

function settingValue(
  name: string,
  provider: Provider,
  setting: ProviderSetting | undefined,
): string | undefined {
  if (name === "HOST") return vertexHost(settingValue("LOCATION", provider, setting) ?? "");
  const value = setting?.plain?.[name];
  if (value !== undefined) return value;
  if (name === "PROJECT")
    return readServiceAccount(setting?.secrets?.["CREDENTIALS"]?.reveal() ?? "")?.project_id;
  return provider.settings?.find((known) => known.name === name)?.defaultValue;
}

// Signs requests to Bedrock with AWS Signature Version 4. Only the host and AWS's own headers are signed, because the
// runtime may add others.
interface AwsAccount {
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: Secret;
  readonly sessionToken: Secret | undefined;
}

function createAwsAuthorizer(account: AwsAccount, now: () => number): Authorizer {
  // aws4fetch keeps the derived signing key of each day here.
  const cache = new Map<string, ArrayBuffer>();
  const { region, accessKeyId, secretAccessKey, sessionToken } = account;
  return {
    sign: async ({ url, method, body }) => {
      const signer = new AwsV4Signer({
        service: "bedrock",
        region,
        accessKeyId,
        secretAccessKey: secretAccessKey.reveal(),
        ...(sessionToken === undefined ? {} : { sessionToken: sessionToken.reveal() }),
        url,
        method,
        body,
        datetime: new Date(now()).toISOString().replaceAll(/[:-]|\.\d{3}/g, ""),
        cache,
      });
      const { headers } = await signer.sign();
      headers.delete("host");
      if (cache.size > CACHED_KEYS_MAX) cache.clear();
      return { kind: "signed", headers: Object.fromEntries(headers) };
    },
    onRejected: () => cache.clear(),
  };
}

const CACHED_KEYS_MAX = 8;

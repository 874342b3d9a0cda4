// What `doctor` says about accounts that sign their requests: whether they are whole, and, where there is somebody to ask
// for a token, whether they are taken.

import { providerBaseUrl, authorizerFor } from "../../inference/providers/cloud-accounts.ts";
import type { Provider } from "../../inference/providers/providers.ts";
import type { ProviderSetting } from "../../inference/providers/provider-setting.ts";
import type { Finding } from "./finding.ts";

export async function checkCloudAccount(
  provider: Provider,
  setting: ProviderSetting,
): Promise<Finding> {
  const { id: check, name } = provider;
  const url = providerBaseUrl(provider, setting);
  if (url === "")
    return {
      status: "fail",
      check,
      message: `${name} has no address: a part of it is not known`,
      hint: `Set ${missingSettings(provider, setting)}.`,
    };
  const authorize = authorizerFor(provider, setting, Date.now);
  if (setting.apiKey === undefined && authorize === undefined)
    return {
      status: "warn",
      check,
      message: `${name} has settings and no account`,
      hint: "docs/providers.md says what its account is made of.",
    };
  if (provider.cloudAuth !== "google" || authorize === undefined)
    return {
      status: "note",
      check,
      message: `${name} is set up; only a call shows whether its account is taken`,
    };
  try {
    const signed = await authorize.sign({ url, method: "POST", body: "" });
    return signed.kind === "signed"
      ? { status: "ok", check, message: `${name} takes the service account` }
      : {
          status: "fail",
          check,
          message: `${name} refuses the service account: ${(await signed.response.text()).slice(0, 200)}`,
          hint: `Set ${provider.envPrefix}_CREDENTIALS to a key that is valid.`,
        };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      status: "fail",
      check,
      message: `${name} gives no token: ${why}`,
      hint: "See that this machine may call it.",
    };
  }
}

function missingSettings(
  { envPrefix, baseUrl }: Provider,
  { plain = {} }: ProviderSetting,
): string {
  const placeholders = [...baseUrl.matchAll(/\{([A-Z_]+)\}/g)].map(([, name = ""]) => name);
  return placeholders
    .filter((name) => name !== "HOST" && plain[name] === undefined)
    .map((name) => `${envPrefix}_${name}`)
    .join(" and ");
}

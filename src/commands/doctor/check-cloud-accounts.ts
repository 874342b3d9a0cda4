// `doctor` on cloud accounts: whether their settings are complete, and whether a token can be fetched.

import { providerBaseUrl, authorizerFor } from "../../inference/providers/cloud-accounts.ts";
import type { ProviderSetting } from "../../inference/providers/provider-setting.ts";
import type { Provider } from "../../inference/providers/providers.ts";
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
      message: `${name} has no URL: a setting is missing`,
      hint: `Set ${missingSettings(provider, setting)}.`,
    };
  const authorize = authorizerFor(provider, setting, Date.now);
  if (setting.apiKey === undefined && authorize === undefined)
    return {
      status: "warn",
      check,
      message: `${name} has settings but no credentials`,
      hint: "See docs/site/providers.md for the settings it needs.",
    };
  if (provider.cloudAuth !== "google" || authorize === undefined)
    return {
      status: "note",
      check,
      message: `${name} is set up; only a call shows whether it accepts the credentials`,
    };
  try {
    const signed = await authorize.sign({ url, method: "POST", body: "" });
    return signed.kind === "signed"
      ? { status: "ok", check, message: `${name} accepts the service account` }
      : {
          status: "fail",
          check,
          message: `${name} refuses the service account: ${(await signed.response.text()).slice(0, 200)}`,
          hint: `Set ${provider.envPrefix}_CREDENTIALS to a valid key.`,
        };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      status: "fail",
      check,
      message: `${name} returned no token: ${why}`,
      hint: "Check that this machine can reach it.",
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

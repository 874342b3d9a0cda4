// What `doctor` says about accounts that sign their requests: whether they are whole, and, where there is somebody to ask
// for a token, whether they are taken.

import { addressOf, authorizeFor } from "../inference/cloud-accounts.ts";
import type { Provider } from "../inference/providers.ts";
import type { ProviderSetting } from "../provider-settings.ts";
import type { Finding } from "./doctor.ts";

export async function checkCloud(provider: Provider, setting: ProviderSetting): Promise<Finding> {
  const { id: about, name } = provider;
  const url = addressOf(provider, setting);
  if (url === "")
    return {
      verdict: "fail",
      about,
      says: `${name} has no address: a part of it is not known`,
      mend: `Set ${missingIn(provider, setting)}.`,
    };
  const authorize = authorizeFor(provider, setting, Date.now);
  if (setting.apiKey === undefined && authorize === undefined)
    return {
      verdict: "warn",
      about,
      says: `${name} has settings and no account`,
      mend: "docs/providers.md says what its account is made of.",
    };
  if (provider.signsWith !== "google" || authorize === undefined)
    return {
      verdict: "note",
      about,
      says: `${name} is set up; only a call shows whether its account is taken`,
    };
  try {
    const signed = await authorize.sign({ url, method: "POST", body: "" });
    return signed.kind === "signed"
      ? { verdict: "ok", about, says: `${name} takes the service account` }
      : {
          verdict: "fail",
          about,
          says: `${name} refuses the service account: ${(await signed.response.text()).slice(0, 200)}`,
          mend: `Set ${provider.stem}_CREDENTIALS to a key that is valid.`,
        };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      verdict: "fail",
      about,
      says: `${name} gives no token: ${why}`,
      mend: "See that this machine may call it.",
    };
  }
}

function missingIn({ stem, baseUrl }: Provider, { plain = {} }: ProviderSetting): string {
  const holes = [...baseUrl.matchAll(/\{([A-Z_]+)\}/g)].map(([, name = ""]) => name);
  return holes
    .filter((name) => name !== "HOST" && plain[name] === undefined)
    .map((name) => `${stem}_${name}`)
    .join(" and ");
}

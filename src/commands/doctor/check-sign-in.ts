// `doctor` on sign-in: the settings and the issuer.

import type { Config } from "../../config/config.ts";
import { checkIdentity } from "../../people/identity-diagnostics.ts";
import type { Finding } from "./finding.ts";

const STATUS_BY_LEVEL = { ok: "ok", warning: "warn", error: "fail" } as const;

export async function checkSignIn({ baseUrl, identity }: Config): Promise<readonly Finding[]> {
  const findings = await checkIdentity({ baseUrl, identity });
  return findings.map(({ level, message }) => ({
    status: STATUS_BY_LEVEL[level],
    check: "identity",
    message,
  }));
}

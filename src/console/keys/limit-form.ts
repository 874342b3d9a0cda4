// Reads the fields of a spending limit in a form.

import { invalid } from "../../base/fault.ts";
import { plainAmount } from "../../base/money/amount-text.ts";
import { type Nano, nanoFromUsd } from "../../base/money/money.ts";
import { LIMIT_WINDOWS } from "../../base/money/spend-window.ts";
import type { KeySettings } from "../../keys/key-settings.ts";

export function parseLimit(form: {
  readonly limit_usd?: string | undefined;
  readonly limit_window?: string | undefined;
}): Pick<KeySettings, "limit" | "limitWindow"> {
  const limitText = plainAmount(form.limit_usd ?? "");
  if (limitText === "") return { limit: null, limitWindow: null };
  const limit: Nano | undefined = nanoFromUsd(limitText);
  if (limit === undefined)
    throw invalid("limit_usd", "The limit must be an amount in US dollars, such as 5 or 2.50.");
  return {
    limit,
    limitWindow: LIMIT_WINDOWS.find((window) => window === form.limit_window) ?? null,
  };
}

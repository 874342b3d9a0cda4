/** @jsxImportSource hono/jsx */
// What the forms share in which a person gives a program a key: its limit, as it is read from the form, and the decision.

import type { Child } from "hono/jsx";
import { invalid } from "../base/fault.ts";
import { plainAmount } from "../base/money/amount-text.ts";
import { type Nano, nanoFromUsd } from "../base/money/money.ts";
import { LIMIT_WINDOWS, type LimitWindow } from "../base/money/spend-window.ts";
import { Field } from "../http/pages/components/form.tsx";
import type { FormError } from "../http/pages/page-response.ts";

const LIMIT_DEFAULT_USD = "10";

export interface KeyLimitValues {
  readonly limit_usd?: string | undefined;
  readonly limit_window?: string | undefined;
}

export interface KeyLimit {
  readonly limit: Nano;
  readonly limitWindow: LimitWindow | null;
}

export function KeyLimitFields({
  values = {},
  error,
}: {
  readonly values?: KeyLimitValues | undefined;
  readonly error?: FormError | undefined;
}): Child {
  return (
    <>
      <Field
        id="limit-usd"
        name="limit_usd"
        label="Limit (USD)"
        inputMode="decimal"
        value={values.limit_usd ?? LIMIT_DEFAULT_USD}
        error={error?.field === "limit_usd" ? error.message : undefined}
        isRequired
      />
      <label for="limit-window">Limit resets</label>
      <select id="limit-window" name="limit_window">
        <option value="">never</option>
        {LIMIT_WINDOWS.map((window) => (
          <option value={window} selected={window === (values.limit_window ?? "month")}>
            every {window}
          </option>
        ))}
      </select>
    </>
  );
}

/** The end of a form in which a person decides: `do` is `approve` or `deny`. */
export function DecisionButtons({
  approve,
  deny,
}: {
  readonly approve: string;
  readonly deny: string;
}): Child {
  return (
    <p class="actions">
      <button type="submit" name="do" value="approve">
        {approve}
      </button>{" "}
      <button type="submit" class="secondary" name="do" value="deny" formnovalidate>
        {deny}
      </button>
    </p>
  );
}

export function readKeyLimit({ limit_usd: amount = "", limit_window }: KeyLimitValues): KeyLimit {
  const limit = nanoFromUsd(plainAmount(amount));
  if (limit === undefined || limit <= 0n)
    throw invalid("limit_usd", "The limit must be an amount in US dollars, such as 5 or 2.50.");
  return { limit, limitWindow: LIMIT_WINDOWS.find((window) => window === limit_window) ?? null };
}

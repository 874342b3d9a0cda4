// The routes of the account page.

import { z } from "zod";
import { operatorFormRoute, operatorPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import { type RouteInput, type Route, type Operator } from "../../http/route.ts";
import type { Tx } from "../../store/db.ts";
import { accountPath } from "../operator-layout.tsx";
import { FormFields, FormToken, type OperatorContext, submitFormOnce } from "../page-context.ts";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import {
  writeOffAccountDebt,
  adjustBalance,
  requireAccountId,
  freezeAccount,
  grantCredit,
  parseReason,
  parseUsd,
  unfreezeAccount,
} from "./account-actions.ts";
import { readAccountDetails } from "./account-details.ts";
import { type AccountActionResult, accountPage, ACTION_RESULT_TEXT } from "./account-page.tsx";

const PATH = `${OPERATOR_PATH}/accounts/{account}`;
const AccountPath = z.object({ account: z.string() });
type AccountInput = RouteInput<{ account: string }, undefined, unknown, Operator>;

export function accountDetailsRoutes(context: OperatorContext): readonly Route[] {
  return [showRoute(context), changeRoute(context)];
}

const ActionResult = z.custom<AccountActionResult>(
  (name) => typeof name === "string" && Object.hasOwn(ACTION_RESULT_TEXT, name),
);

function showRoute(context: OperatorContext): Route {
  return operatorPageRoute({
    path: PATH,
    id: "showAccount",
    summary: "Show an account",
    params: AccountPath,
    query: z.object({
      done: ActionResult.optional(),
      models: z
        .string()
        .regex(/^model:./)
        .optional(),
    }),
    run: async ({ params, query, now, caller: operator }) => {
      const accountId = requireAccountId(params.account);
      const details = await readAccountDetails(context.db, accountId, now, query.models);
      return accountPage(operator, { details, result: query.done });
    },
  });
}

const AccountActionForm = z.object({
  do: z.enum(["grant", "adjust", "freeze", "unfreeze", "write_off"]),
  form: FormToken,
  usd: z.string().max(40).default(""),
  bucket: z.enum(["promo", "paid", ""]).default(""),
  reason: z.string(),
});
type AccountActionForm = z.infer<typeof AccountActionForm>;

function changeRoute(context: OperatorContext): Route {
  return operatorFormRoute({
    path: PATH,
    id: "changeAccount",
    summary: "Grant credit, adjust, freeze, unfreeze or write off",
    params: AccountPath,
    body: FormFields,
    requestExample: { do: "freeze", form: "f".repeat(43), reason: "spam" },
    run: async (input) => {
      const accountId = requireAccountId(input.params.account);
      const accountForm = parseWithSchema(AccountActionForm, input.body, "body");
      const payload = { accountId, ...accountForm };
      const result = await submitFormOnce(
        context,
        input.caller,
        { token: accountForm.form, payload, now: input.now },
        (tx) => applyChange(tx, accountForm, input),
      );
      return `${accountPath(accountId)}?done=${result}`;
    },
    rejected: async ({ params, body: formValues, now, caller }, { message: errorMessage }) => {
      const details = await readAccountDetails(context.db, params.account, now);
      return accountPage(caller, { details, errorMessage, formValues });
    },
  });
}

async function applyChange(
  tx: Tx,
  form: AccountActionForm,
  { params, clientIp, now, caller: { email } }: AccountInput,
): Promise<AccountActionResult> {
  const change = {
    accountId: params.account,
    by: { type: "operator", id: email },
    reason: parseReason(form.reason),
    network: networksOf(clientIp)[1],
    now,
    id: form.form,
  } as const;
  switch (form.do) {
    case "grant": {
      const result = await grantCredit(tx, { ...change, amount: parseUsd(form.usd) });
      return result.isChanged ? "granted" : "unchanged";
    }
    case "adjust": {
      const bucket = form.bucket === "" ? undefined : form.bucket;
      const amount = parseUsd(form.usd);
      const result = await adjustBalance(tx, { ...change, amount, bucket });
      return result.isChanged ? "adjusted" : "unchanged";
    }
    case "freeze":
      return (await freezeAccount(tx, change)).isChanged ? "frozen" : "unchanged";
    case "unfreeze":
      return (await unfreezeAccount(tx, change)).isChanged ? "unfrozen" : "unchanged";
    case "write_off":
      return (await writeOffAccountDebt(tx, change)).isChanged ? "written_off" : "unchanged";
  }
}

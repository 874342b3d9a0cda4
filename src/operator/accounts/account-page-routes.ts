// The routes of the account page.

import { z } from "zod";
import { pageResponse, redirect, userErrorMessage } from "../../http/pages/page-response.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { RouteInput, Route } from "../../http/route.ts";
import type { Tx } from "../../store/db.ts";
import { accountPath } from "../operator-layout.tsx";
import {
  FormToken,
  formRoute,
  type OperatorContext,
  submitFormOnce,
  pageRoute,
} from "../page-context.ts";
import { type Operator, OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
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
type AccountInput = RouteInput<{ account: string }, undefined, undefined, undefined>;

export function accountDetailsRoutes(context: OperatorContext): readonly Route[] {
  return [showRoute(context), changeRoute(context)];
}

const ActionResult = z.custom<AccountActionResult>(
  (name) => typeof name === "string" && Object.hasOwn(ACTION_RESULT_TEXT, name),
);

function showRoute(context: OperatorContext): Route {
  return pageRoute(context, {
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
    run: async ({ params, query, now }, operator) => {
      const accountId = requireAccountId(params.account);
      const details = await readAccountDetails(context.db, accountId, now, query.models);
      return pageResponse(accountPage(operator, { details, result: query.done }));
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
  return formRoute(context, {
    path: PATH,
    id: "changeAccount",
    summary: "Grant credit, adjust, freeze, unfreeze or write off",
    params: AccountPath,
    run: async (input, operator, fields) => {
      const accountId = requireAccountId(input.params.account);
      try {
        const accountForm = parseWithSchema(AccountActionForm, fields, "body");
        const payload = { accountId, ...accountForm };
        const result = await submitFormOnce(
          context,
          operator,
          { token: accountForm.form, payload, now: input.now },
          (tx) => applyChange(tx, accountForm, { ...input, operator }),
        );
        return redirect(`${accountPath(accountId)}?done=${result}`);
      } catch (error) {
        const errorMessage = userErrorMessage(error);
        const details = await readAccountDetails(context.db, accountId, input.now);
        return pageResponse(accountPage(operator, { details, errorMessage, formValues: fields }), {
          status: 400,
        });
      }
    },
  });
}

async function applyChange(
  tx: Tx,
  form: AccountActionForm,
  { params, clientIp, now, operator: { email } }: AccountInput & { readonly operator: Operator },
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

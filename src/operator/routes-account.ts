// One account on the operator's page, and the forms that change it.

import { z } from "zod";
import { networksOf } from "../http/address.ts";
import type { Input, Route } from "../http/route.ts";
import type { Tx } from "../store/db.ts";
import { readAccountFile } from "./account.ts";
import { type AccountDone, accountPage, DONE_WORDS } from "./account-page.tsx";
import { pathOfAccount } from "./frame.tsx";
import {
  FormName,
  formRoute,
  mendable,
  type Office,
  once,
  pageRoute,
  parseFields,
  redirect,
  show,
} from "./office.ts";
import {
  bearDebt,
  correctBalance,
  demandAccountId,
  freezeAccount,
  giveCredit,
  readReason,
  readUsd,
  unfreezeAccount,
} from "./operator.ts";
import { type Operator, OPERATOR_PATH } from "./sessions.ts";

const PATH = `${OPERATOR_PATH}/accounts/{account}`;
const AccountPath = z.object({ account: z.string() });
type AccountInput = Input<{ account: string }, undefined, undefined, undefined>;

export function accountFileRoutes(office: Office): readonly Route[] {
  return [showRoute(office), changeRoute(office)];
}

const DoneName = z.custom<AccountDone>(
  (name) => typeof name === "string" && Object.hasOwn(DONE_WORDS, name),
);

function showRoute(office: Office): Route {
  return pageRoute(office, {
    path: PATH,
    id: "showAccountFile",
    summary: "Everything about one account",
    params: AccountPath,
    query: z.object({
      done: DoneName.optional(),
      models: z
        .string()
        .regex(/^model:./)
        .optional(),
    }),
    run: async ({ params, query, now }, operator) => {
      const accountId = demandAccountId(params.account);
      const file = await readAccountFile(office.db, accountId, now, query.models);
      return show(accountPage(operator, { file, done: query.done }));
    },
  });
}

const Change = z.object({
  do: z.enum(["grant", "adjust", "freeze", "unfreeze", "write_off"]),
  form: FormName,
  usd: z.string().max(40).default(""),
  bucket: z.enum(["promo", "paid", ""]).default(""),
  reason: z.string(),
});
type Change = z.infer<typeof Change>;

function changeRoute(office: Office): Route {
  return formRoute(office, {
    path: PATH,
    id: "changeAccount",
    summary: "Grant, adjust, freeze, unfreeze or write off",
    params: AccountPath,
    run: async (input, operator, fields) => {
      const accountId = demandAccountId(input.params.account);
      try {
        const change = parseFields(Change, fields);
        const asks = { accountId, ...change };
        const done = await once(
          office,
          operator,
          { form: change.form, asks, now: input.now },
          (tx) => carryOut(tx, office, change, { ...input, operator }),
        );
        return redirect(`${pathOfAccount(accountId)}?done=${done}`);
      } catch (error) {
        const wrong = mendable(error);
        const file = await readAccountFile(office.db, accountId, input.now);
        return show(accountPage(operator, { file, wrong, typed: fields }), { status: 400 });
      }
    },
  });
}

async function carryOut(
  tx: Tx,
  { tellFalls }: Office,
  change: Change,
  { params, address, now, operator: { email } }: AccountInput & { readonly operator: Operator },
): Promise<AccountDone> {
  const act = {
    accountId: params.account,
    by: { type: "operator", id: email },
    reason: readReason(change.reason),
    network: networksOf(address)[1],
    now,
    id: change.form,
  } as const;
  switch (change.do) {
    case "grant": {
      const given = await giveCredit(tx, { ...act, amount: readUsd(change.usd) });
      return given.made ? "granted" : "unchanged";
    }
    case "adjust": {
      const bucket = change.bucket === "" ? undefined : change.bucket;
      const amount = readUsd(change.usd);
      const corrected = await correctBalance(tx, { ...act, amount, bucket, tellFalls });
      return corrected.made ? "adjusted" : "unchanged";
    }
    case "freeze":
      return (await freezeAccount(tx, act)).made ? "frozen" : "unchanged";
    case "unfreeze":
      return (await unfreezeAccount(tx, act)).made ? "unfrozen" : "unchanged";
    case "write_off":
      return (await bearDebt(tx, act)).made ? "written_off" : "unchanged";
  }
}

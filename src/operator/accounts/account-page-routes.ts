// The routes of the account page.

import { z } from "zod";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { operatorFormRoute, operatorPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Operator, Route } from "../../http/route.ts";
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
import { readAccountNames } from "./account-names.ts";
import { type AccountActionResult, accountPage, ACTION_RESULT_TEXT } from "./account-page.tsx";
import { approvalsPage, APPROVALS_PATH } from "./change-confirmation.tsx";
import { decideRequest, listChangeRequests, requestChange } from "./change-requests.ts";

const PATH = `${OPERATOR_PATH}/accounts/{account}`;
const AccountPath = z.object({ account: z.string() });

export function accountDetailsRoutes(context: OperatorContext): readonly Route[] {
  return [showRoute(context), changeRoute(context), ...approvalRoutes(context)];
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
    }),
    run: async ({ params, query, now, caller: operator }) => {
      const accountId = requireAccountId(params.account);
      const details = await readAccountDetails(context.db, accountId, now);
      return accountPage(operator, { details, result: query.done });
    },
  });
}

const ActionFields = z.object({
  do: z.enum(["grant", "adjust", "freeze", "unfreeze", "write_off"]),
  usd: z.string().max(40).default(""),
  bucket: z.enum(["promo", "paid", ""]).default(""),
  reason: z.string(),
});
const AccountActionForm = ActionFields.extend({
  form: FormToken,
  confirm: z.literal("yes").optional(),
});

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
      const { confirm, form: token, ...fields } = accountForm;
      const { caller, now, clientIp } = input;
      const needsApproval = context.approval === "two_person";
      if (confirm === undefined) {
        requireValid(fields);
        const details = await readAccountDetails(context.db, accountId, now);
        const confirmation = { fields: { ...fields, form: token }, needsApproval };
        return accountPage(caller, { details, formValues: input.body, confirmation });
      }
      const payload = { accountId, form: token, ...fields };
      const submission = { token, payload, now };
      const act = { operator: caller.email, network: networksOf(clientIp)[1], now };
      const result = await submitFormOnce(context, caller, submission, async (tx) => {
        if (!needsApproval) return await applyChange(tx, { accountId, id: token, fields }, act);
        requireValid(fields);
        await requestChange(tx, act, { accountId, fields });
        return "requested" satisfies AccountActionResult;
      });
      return `${accountPath(accountId)}?done=${result}`;
    },
    rejected: async ({ params, body: formValues, now, caller }, { message: errorMessage }) => {
      const details = await readAccountDetails(context.db, params.account, now);
      return accountPage(caller, { details, errorMessage, formValues });
    },
  });
}

type ActionFields = z.infer<typeof ActionFields>;

function requireValid(fields: ActionFields): void {
  parseReason(fields.reason);
  if (fields.do === "grant" || fields.do === "adjust") parseUsd(fields.usd);
}

interface Change {
  readonly accountId: string;
  /** The transfer's id contains it, so that the change is applied once. */
  readonly id: string;
  readonly fields: ActionFields;
  readonly requestedBy?: string;
}

async function applyChange(
  tx: Tx,
  { accountId, id, fields, requestedBy }: Change,
  { operator, network, now }: { operator: string; network: string | null; now: number },
): Promise<AccountActionResult> {
  const reason = parseReason(fields.reason);
  const by = { type: "operator", id: operator } as const;
  const change = { accountId, by, reason, network, now, id, requestedBy };
  switch (fields.do) {
    case "grant": {
      const result = await grantCredit(tx, { ...change, amount: parseUsd(fields.usd) });
      return result.isChanged ? "granted" : "unchanged";
    }
    case "adjust": {
      const bucket = fields.bucket === "" ? undefined : fields.bucket;
      const amount = parseUsd(fields.usd);
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

/** The changes that wait for a second operator. */
function approvalRoutes(context: OperatorContext): readonly Route[] {
  const { db, approval } = context;
  const showPage = async (operator: Operator, more: ApprovalsResult = {}): Promise<PageLayout> => {
    const requests = await listChangeRequests(db);
    const names = await readAccountNames(
      db,
      requests.map(({ accountId }) => accountId),
    );
    return approvalsPage(operator, { approval, requests, names, ...more });
  };
  return [
    operatorPageRoute({
      path: APPROVALS_PATH,
      id: "showApprovals",
      summary: "List the changes that wait for a second operator",
      query: z.object({ done: z.enum(["approved", "rejected"]).optional() }),
      run: ({ query: { done }, caller }) => showPage(caller, { done }),
    }),
    operatorFormRoute({
      path: APPROVALS_PATH,
      id: "decideApproval",
      summary: "Approve or reject a change that another operator requested",
      body: z.object({
        form: FormToken,
        request: z.string().max(40),
        decision: z.enum(["approve", "reject"]),
      }),
      requestExample: { form: "f".repeat(43), request: "req_1", decision: "approve" },
      run: async ({ body, caller, clientIp, now }) => {
        const act = { operator: caller.email, network: networksOf(clientIp)[1], now };
        const submission = { token: body.form, payload: body, now };
        const done = await submitFormOnce(context, caller, submission, async (tx) => {
          const isApproved = body.decision === "approve";
          const request = await decideRequest(tx, act, { id: body.request, isApproved });
          if (!isApproved) return "rejected";
          const { accountId, id, requestedBy } = request;
          const fields = parseWithSchema(ActionFields, request.fields, "body");
          await applyChange(tx, { accountId, id, fields, requestedBy }, act);
          return "approved";
        });
        return `${APPROVALS_PATH}?done=${done}`;
      },
      rejected: ({ caller }, { message: errorMessage }) => showPage(caller, { errorMessage }),
    }),
  ];
}

interface ApprovalsResult {
  readonly done?: "approved" | "rejected" | undefined;
  readonly errorMessage?: string;
}

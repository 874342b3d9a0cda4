// The routes of the payments page.

import { z } from "zod";
import { listMeteredPayments } from "../../billing/x402/upto-payment-rows.ts";
import { operatorFormRoute, operatorPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Route } from "../../http/route.ts";
import { cursorSchema, emptyAsUndefined } from "../../http/schemas.ts";
import { parseReason } from "../accounts/account-actions.ts";
import { readAccountNames } from "../accounts/account-names.ts";
import { FormFields, FormToken, type OperatorContext, submitFormOnce } from "../page-context.ts";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import { lookUpOnChain, markNotOnChain } from "./mark-not-on-chain.ts";
import {
  listUnappliedFacts,
  listInvoicesWithPayments,
  listUnclearPayments,
  PAYMENT_FILTERS,
} from "./payment-list.ts";
import {
  PAYMENT_RESULT_TEXT,
  type PaymentActionResult,
  paymentsPage,
  type PaymentsPageProps,
} from "./payments-page.tsx";

const PATH = `${OPERATOR_PATH}/payments`;
const INVOICES_PER_PAGE = 50;
const METERED_SHOWN = 20;
const ID_MAX = 300;

export function paymentRoutes(context: OperatorContext): readonly Route[] {
  return [showRoute(context), changeRoute(context)];
}

const ActionResult = z.custom<PaymentActionResult>(
  (name) => typeof name === "string" && Object.hasOwn(PAYMENT_RESULT_TEXT, name),
);

function showRoute(context: OperatorContext): Route {
  return operatorPageRoute({
    path: PATH,
    id: "showPayments",
    summary: "List invoices and their payments",
    query: z.object({
      state: emptyAsUndefined(z.enum(PAYMENT_FILTERS)),
      cursor: cursorSchema("inv"),
      done: ActionResult.optional(),
    }),
    run: async ({ query: { state, cursor, done: result }, caller }) =>
      paymentsPage(caller, { ...(await readPayments(context, { state, cursor })), result }),
  });
}

const PaymentActionForm = z.object({
  do: z.literal("mark_absent"),
  form: FormToken,
  payment: z
    .string()
    .max(ID_MAX)
    .regex(/^[\w:.-]+$/),
  reason: z.string(),
});

function changeRoute(context: OperatorContext): Route {
  return operatorFormRoute({
    path: PATH,
    id: "changePayment",
    summary: "Mark an unclear payment as not on chain",
    body: FormFields,
    requestExample: { do: "mark_absent", form: "f".repeat(43), payment: "x402.1", reason: "lost" },
    run: async ({ clientIp, now, caller: operator, body }) => {
      const paymentForm = parseWithSchema(PaymentActionForm, body, "body");
      const { payment: id, form: token } = paymentForm;
      const reason = parseReason(paymentForm.reason);
      const chainResult = await lookUpOnChain(context.db, context.chain, id);
      const by = { type: "operator", id: operator.email } as const;
      const network = networksOf(clientIp)[1];
      const mark = { id, by, reason, network, now, chainResult };
      const result = await submitFormOnce(
        context,
        operator,
        { token, payload: paymentForm, now },
        async (tx) => ((await markNotOnChain(tx, mark)) ? "absent" : "unchanged"),
      );
      return `${PATH}?done=${result}`;
    },
    rejected: async ({ caller, body: formValues }, { message: errorMessage }) => {
      const payments = await readPayments(context, {});
      return paymentsPage(caller, { ...payments, errorMessage, formValues });
    },
  });
}

async function readPayments(
  { db }: OperatorContext,
  {
    state,
    cursor,
  }: Partial<Pick<PaymentsPageProps, "state">> & { readonly cursor?: string | undefined },
): Promise<PaymentsPageProps> {
  const invoices = await listInvoicesWithPayments(db, { limit: INVOICES_PER_PAGE, cursor }, state);
  const unclear = await listUnclearPayments(db);
  const accountIds = [...invoices.data, ...unclear].map(({ accountId }) => accountId);
  return {
    state,
    invoices,
    unapplied: await listUnappliedFacts(db),
    unclear,
    metered: await listMeteredPayments(db, METERED_SHOWN),
    accountNames: await readAccountNames(db, accountIds),
  };
}

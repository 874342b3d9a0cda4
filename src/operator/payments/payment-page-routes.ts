// The routes of the payments page.

import { z } from "zod";
import { pageResponse, redirect, userErrorMessage } from "../../http/pages/page-response.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { parseReason } from "../accounts/account-actions.ts";
import { readAccountNames } from "../accounts/account-names.ts";
import {
  FormToken,
  formRoute,
  type OperatorContext,
  submitFormOnce,
  emptyAsUndefined,
  pageRoute,
} from "../page-context.ts";
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
const ID_MAX = 300;

export function paymentRoutes(context: OperatorContext): readonly Route[] {
  return [showRoute(context), changeRoute(context)];
}

const ActionResult = z.custom<PaymentActionResult>(
  (name) => typeof name === "string" && Object.hasOwn(PAYMENT_RESULT_TEXT, name),
);

function showRoute(context: OperatorContext): Route {
  return pageRoute(context, {
    path: PATH,
    id: "showPayments",
    summary: "List invoices and their payments",
    query: z.object({
      state: emptyAsUndefined(z.enum(PAYMENT_FILTERS)),
      cursor: cursorSchema("inv"),
      done: ActionResult.optional(),
    }),
    run: async ({ query: { state, cursor, done: result } }, operator) =>
      pageResponse(
        paymentsPage(operator, { ...(await readPayments(context, { state, cursor })), result }),
      ),
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
  return formRoute(context, {
    path: PATH,
    id: "changePayment",
    summary: "Mark an unclear payment as not on chain",
    run: async ({ clientIp, now }, operator, fields) => {
      try {
        const paymentForm = parseWithSchema(PaymentActionForm, fields, "body");
        const { payment: id, form: token } = paymentForm;
        const reason = parseReason(paymentForm.reason);
        const chainResult = await lookUpOnChain(context.db, context.chain, id);
        const by = { type: "operator", id: operator.email } as const;
        const network = networksOf(clientIp)[1];
        const result = await submitFormOnce(
          context,
          operator,
          { token, payload: paymentForm, now },
          async (tx) => {
            const isChanged = await markNotOnChain(tx, {
              id,
              by,
              reason,
              network,
              now,
              chainResult,
            });
            return isChanged ? "absent" : "unchanged";
          },
        );
        return redirect(`${PATH}?done=${result}`);
      } catch (error) {
        const errorMessage = userErrorMessage(error);
        const payments = await readPayments(context, {});
        return pageResponse(
          paymentsPage(operator, { ...payments, errorMessage, formValues: fields }),
          { status: 400 },
        );
      }
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
    accountNames: await readAccountNames(db, accountIds),
  };
}

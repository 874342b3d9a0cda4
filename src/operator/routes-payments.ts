// The operator's page of payments, and the form that ends one which never arrived.

import { z } from "zod";
import { networksOf } from "../http/address.ts";
import { cursorOf } from "../http/record.ts";
import type { Route } from "../http/route.ts";
import { askChainAfter, markAbsent } from "./absent.ts";
import {
  FormName,
  formRoute,
  mendable,
  type Office,
  once,
  orNothing,
  pageRoute,
  parseFields,
  redirect,
  show,
} from "./office.ts";
import { readReason } from "./operator.ts";
import { listAside, listPayments, listUnclear, PAYMENT_FILTERS } from "./payments.ts";
import {
  PAYMENT_DONE,
  type PaymentDone,
  paymentsPage,
  type PaymentsState,
} from "./payments-page.tsx";
import { OPERATOR_PATH } from "./sessions.ts";

const PATH = `${OPERATOR_PATH}/payments`;
const SHOWN = 50;
const ID_MAX = 300;

export function paymentRoutes(office: Office): readonly Route[] {
  return [showRoute(office), changeRoute(office)];
}

const DoneName = z.custom<PaymentDone>(
  (name) => typeof name === "string" && Object.hasOwn(PAYMENT_DONE, name),
);

function showRoute(office: Office): Route {
  return pageRoute(office, {
    path: PATH,
    id: "showPayments",
    summary: "Invoices, what was paid of them, and what went back",
    query: z.object({
      state: orNothing(z.enum(PAYMENT_FILTERS)),
      cursor: cursorOf("inv"),
      done: DoneName.optional(),
    }),
    run: async ({ query: { state, cursor, done } }, operator) =>
      show(paymentsPage(operator, { ...(await readPayments(office, { state, cursor })), done })),
  });
}

const Change = z.object({
  do: z.literal("mark_absent"),
  form: FormName,
  payment: z
    .string()
    .max(ID_MAX)
    .regex(/^[\w:.-]+$/),
  reason: z.string(),
});

function changeRoute(office: Office): Route {
  return formRoute(office, {
    path: PATH,
    id: "changePayment",
    summary: "Say that an unclear payment never arrived",
    run: async ({ address, now }, operator, fields) => {
      try {
        const change = parseFields(Change, fields);
        const { payment: id, form } = change;
        const reason = readReason(change.reason);
        const chainSays = await askChainAfter(office.db, office.chain, id);
        const by = { type: "operator", id: operator.email } as const;
        const network = networksOf(address)[1];
        const done = await once(office, operator, { form, asks: change, now }, async (tx) => {
          const made = await markAbsent(tx, { id, by, reason, network, now, chainSays });
          return made ? "absent" : "unchanged";
        });
        return redirect(`${PATH}?done=${done}`);
      } catch (error) {
        const wrong = mendable(error);
        const shown = await readPayments(office, {});
        return show(paymentsPage(operator, { ...shown, wrong, typed: fields }), { status: 400 });
      }
    },
  });
}

async function readPayments(
  { db }: Office,
  {
    state,
    cursor,
  }: Partial<Pick<PaymentsState, "state">> & { readonly cursor?: string | undefined },
): Promise<PaymentsState> {
  return {
    state,
    invoices: await listPayments(db, { limit: SHOWN, cursor }, state),
    aside: await listAside(db),
    unclear: await listUnclear(db),
  };
}

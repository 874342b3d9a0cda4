// Saves and detaches payment methods, and reconciles their state with the processor.

import { lockWorkspace, roleOf } from "../../accounts/members.ts";
import { recordAuditEntry } from "../../activity/audit.ts";
import { Fault } from "../../base/fault.ts";
import type { Log } from "../../base/log.ts";
import { MINUTE_MS } from "../../base/time.ts";
import type { Db, Tx } from "../../store/db.ts";
import { isRecentlyChecked } from "../payments/checkouts.ts";
import {
  type PaymentProcessor,
  type PaymentMethods,
  paymentMethodsOf,
} from "../payments/payment-processor.ts";
import {
  discardMethod,
  listDueMethods,
  setMethodSaved,
  findMethodByPage,
  listMethods,
  findOrInsertSavingMethod,
  type PaymentMethod,
} from "./payment-method-rows.ts";

export interface PaymentMethodDeps {
  readonly db: Db;
  readonly log: Log;
  readonly processor: PaymentProcessor;
}

/** Throws if the processor cannot charge saved methods. */
export function requirePaymentMethods(processor: PaymentProcessor): PaymentMethods {
  const paymentMethods = paymentMethodsOf(processor);
  if (paymentMethods === undefined)
    throw new Fault("conflict", "the processor has no saved methods", {
      message:
        "This gateway takes bank transfers only, so it cannot save payment methods. Buy credits with an invoice.",
    });
  return paymentMethods;
}

/** Returns the setup page; undefined if a method has just been saved. */
export async function beginMethodSetup(
  deps: PaymentMethodDeps,
  setup: { readonly accountId: string; readonly personId: string; readonly returnUrl: string },
  now: number,
): Promise<string | undefined> {
  const { db, processor } = deps;
  const paymentMethods = requirePaymentMethods(processor);
  const { accountId, personId: savedBy, returnUrl } = setup;
  // An earlier setup may have been completed or expired meanwhile.
  for (const saving of await listMethods(db, accountId, "saving"))
    if (saving.pageRef !== null && saving.processor === processor.id)
      if ((await reconcileMethod(deps, paymentMethods, saving, now)) === "saved") return undefined;
  const method = await db.write((tx) =>
    findOrInsertSavingMethod(tx, { accountId, processor: processor.id, savedBy, now }),
  );
  const { ref, url, customer } = await paymentMethods.createSetupPage({
    id: method.id,
    accountId,
    returnUrl,
  });
  await db.write((tx) =>
    tx.run(
      "update payment_method set page_ref = ?, customer = ?, due_at = ? where id = ? and state = 'saving'",
      [ref, customer, now + MINUTE_MS, method.id],
    ),
  );
  return url;
}

/** Reconciles the account's open setups before they are shown, unless that was done a moment ago. */
export async function reconcileMethods(
  deps: PaymentMethodDeps,
  accountId: string,
  now: number,
): Promise<void> {
  const paymentMethods = paymentMethodsOf(deps.processor);
  if (paymentMethods === undefined) return;
  for (const method of await listMethods(deps.db, accountId, "saving"))
    if (!isRecentlyChecked(method, now) && method.processor === deps.processor.id)
      await reconcileMethod(deps, paymentMethods, method, now);
}

/** Returns false if the page is not a setup page. */
export async function handleMethodWebhook(
  deps: PaymentMethodDeps,
  pageRef: string,
  now: number,
): Promise<boolean> {
  const method = await findMethodByPage(deps.db, deps.processor.id, pageRef);
  if (method === undefined) return false;
  const paymentMethods = paymentMethodsOf(deps.processor);
  if (paymentMethods !== undefined && method.state === "saving")
    await reconcileMethod(deps, paymentMethods, method, now);
  return true;
}

/** Reconciles open setups and detaches removed methods at the processor. */
export async function pollMethods(deps: PaymentMethodDeps, now: number): Promise<void> {
  const paymentMethods = paymentMethodsOf(deps.processor);
  if (paymentMethods === undefined) return;
  for (const method of await listDueMethods(deps.db, deps.processor.id, now))
    try {
      if (method.state === "saving") await reconcileMethod(deps, paymentMethods, method, now);
      else await detachMethod(deps.db, paymentMethods, method);
    } catch (cause) {
      deps.log.warn("failed to reconcile a payment method", { method: method.id, cause });
      await setMethodDue(deps.db, method.id, now + MINUTE_MS);
    }
}

/** Saves the method, unless its setup was discarded or the person who saved it is no longer the owner. */
export async function saveConfirmedMethod(
  tx: Tx,
  { id, accountId, savedBy }: PaymentMethod,
  { ref, label, now }: { readonly ref: string; readonly label: string; readonly now: number },
): Promise<void> {
  await lockWorkspace(tx, accountId);
  if ((await roleOf(tx, accountId, savedBy)) !== "owner") {
    await discardMethod(tx, { id }, { ref, now });
    return;
  }
  if (!(await setMethodSaved(tx, { id, accountId }, { ref, label, now }))) return;
  await recordAuditEntry(tx, {
    accountId,
    actor: { type: "person", id: savedBy },
    action: "payment_method.saved",
    target: id,
    detail: { label },
    network: null,
    now,
  });
}

async function reconcileMethod(
  { db }: PaymentMethodDeps,
  paymentMethods: PaymentMethods,
  method: PaymentMethod,
  now: number,
): Promise<"open" | "saved" | "expired"> {
  if (method.pageRef === null) return "open";
  const setup = await paymentMethods.fetchSetup(method.pageRef);
  if (setup.state === "saved") {
    await db.write((tx) => saveConfirmedMethod(tx, method, { ...setup, now }));
    return "saved";
  }
  const next = setup.state === "expired" ? "gone" : "saving";
  await db.write((tx) =>
    tx.run(
      "update payment_method set state = ?, looked_at = ?, due_at = ? where id = ? and state = 'saving'",
      [next, now, next === "gone" ? null : now + MINUTE_MS, method.id],
    ),
  );
  return setup.state;
}

/** A setup that was never saved has nothing to detach, unless its page was completed after all. */
async function detachMethod(
  db: Db,
  paymentMethods: PaymentMethods,
  { id, ref, pageRef }: PaymentMethod,
): Promise<void> {
  const setup =
    ref === null && pageRef !== null ? await paymentMethods.fetchSetup(pageRef) : undefined;
  const savedRef = ref ?? (setup?.state === "saved" ? setup.ref : undefined);
  if (savedRef !== undefined) await paymentMethods.detach(savedRef);
  await setMethodDue(db, id, null);
}

async function setMethodDue(db: Db, id: string, dueAt: number | null): Promise<void> {
  await db.write((tx) => tx.run("update payment_method set due_at = ? where id = ?", [dueAt, id]));
}

/** @jsxImportSource hono/jsx */
// The forms with which an operator changes an account. Each has a form token, so that it is applied once.

import type { Child } from "hono/jsx";
import { formatUsd } from "../../base/text/format.ts";
import { PostForm } from "../../http/pages/components/form.tsx";
import { type Operator } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import { accountPath } from "../operator-layout.tsx";
import type { AccountDetails } from "./account-details.ts";

interface AccountFormsProps {
  readonly operator: Operator;
  readonly details: AccountDetails;
  readonly formValues: Readonly<Record<string, string>>;
}

export function AccountForms({ operator, details, formValues }: AccountFormsProps): Child {
  const { account, freeze, owed } = details;
  const isFrozen = freeze?.by === "operator";
  const common = { operator, accountId: account.id, formValues };
  return (
    <>
      <h2>Actions</h2>
      <p class="note">
        The reason is recorded in the audit log, where the account's owner can read it.
      </p>
      <div class="side-by-side">
        <ActionForm
          {...common}
          action="grant"
          title="Grant credit"
          description="Adds promotional credit, which is spent first and never refunded."
          button="Grant credit"
        >
          <UsdField action="grant" formValues={formValues} label="Amount (USD)" />
        </ActionForm>
        <ActionForm
          {...common}
          action="adjust"
          title="Adjust balance"
          description="Corrects the balance. A positive amount pays debts first and then adds paid credit. A negative amount takes promotional credit first. No balance goes below zero."
          button="Adjust balance"
        >
          <UsdField action="adjust" formValues={formValues} label="Amount (USD, may be negative)" />
          <BucketField formValues={formValues} />
        </ActionForm>
        <ActionForm
          {...common}
          action={isFrozen ? "unfreeze" : "freeze"}
          title={isFrozen ? "Unfreeze account" : "Freeze account"}
          description={
            isFrozen
              ? "Allows calls again."
              : "Rejects new calls with all keys, including provider keys. Running calls finish, and all data stays readable."
          }
          button={isFrozen ? "Unfreeze account" : "Freeze account"}
          isDangerous={!isFrozen}
        />
        {owed === 0n ? null : (
          <ActionForm
            {...common}
            action="write_off"
            title="Write off debt"
            description={`Writes off the ${formatUsd(owed)} that the account owes. The gateway bears the loss.`}
            button="Write off debt"
            isDangerous
          />
        )}
      </div>
    </>
  );
}

interface ActionFormProps {
  readonly operator: Operator;
  readonly accountId: string;
  readonly formValues: Readonly<Record<string, string>>;
  readonly action: string;
  readonly title: string;
  readonly description: string;
  readonly button: string;
  readonly isDangerous?: boolean;
  readonly children?: Child;
}

function ActionForm(props: ActionFormProps): Child {
  const {
    operator,
    accountId,
    formValues,
    action,
    title,
    description,
    button,
    isDangerous,
    children,
  } = props;
  return (
    <section class="card" aria-labelledby={`${action}-title`}>
      <h3 id={`${action}-title`}>{title}</h3>
      <p class="hint">{description}</p>
      <PostForm
        user={operator}
        action={accountPath(accountId)}
        fields={{ form: newFormToken(), do: action }}
      >
        {children}
        <label for={`${action}-reason`}>Reason</label>
        <input
          id={`${action}-reason`}
          name="reason"
          required
          maxlength={500}
          autocomplete="off"
          value={formValues["do"] === action ? (formValues["reason"] ?? "") : ""}
        />
        <button type="submit" class={isDangerous === true ? "danger" : undefined}>
          {button}
        </button>
      </PostForm>
    </section>
  );
}

function UsdField({
  action,
  formValues,
  label,
}: {
  readonly action: string;
  readonly formValues: Readonly<Record<string, string>>;
  readonly label: string;
}): Child {
  return (
    <>
      <label for={`${action}-usd`}>{label}</label>
      <input
        id={`${action}-usd`}
        name="usd"
        required
        inputmode="decimal"
        autocomplete="off"
        pattern="[+\-−]?[0-9]{1,7}([.][0-9]{1,9})?"
        value={formValues["do"] === action ? (formValues["usd"] ?? "") : ""}
      />
    </>
  );
}

const BUCKET_OPTIONS = [
  ["", "default order"],
  ["paid", "paid only"],
  ["promo", "promotional only"],
] as const;

/** Keeps the choice of a rejected form, so that sending it again does not change another bucket. */
function BucketField({
  formValues,
}: {
  readonly formValues: Readonly<Record<string, string>>;
}): Child {
  const selected = formValues["do"] === "adjust" ? formValues["bucket"] : undefined;
  return (
    <>
      <label for="adjust-bucket">Bucket</label>
      <select id="adjust-bucket" name="bucket">
        {BUCKET_OPTIONS.map(([value, label]) => (
          <option value={value} selected={value === selected}>
            {label}
          </option>
        ))}
      </select>
    </>
  );
}

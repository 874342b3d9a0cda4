/** @jsxImportSource hono/jsx */
// What an operator may do to an account. Each form has a name of its own, so that what is sent twice is done once.

import type { Child } from "hono/jsx";
import { formatUsd } from "../../base/format.ts";
import type { AccountDetails } from "./account-details.ts";
import { accountPath } from "../operator-layout.tsx";
import { newFormToken } from "../../idempotency/form-submission.ts";
import type { Operator } from "../sign-in/operator-sessions.ts";

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
      <h2>Change it</h2>
      <p class="note">
        The reason is kept with the change, and the account's owner can read it in their audit log.
      </p>
      <div class="side-by-side">
        <ActionForm
          {...common}
          action="grant"
          title="Grant"
          description="Promotional credit: spent first, never refunded."
          button="Grant the credit"
        >
          <UsdField action="grant" formValues={formValues} label="US dollars" />
        </ActionForm>
        <ActionForm
          {...common}
          action="adjust"
          title="Adjust"
          description="Corrects the balance. Upwards it goes to paid credit, after what is owed; downwards it is taken from promotional credit first. Never below zero."
          button="Adjust the balance"
        >
          <UsdField action="adjust" formValues={formValues} label="US dollars, with − for less" />
          <BucketField formValues={formValues} />
        </ActionForm>
        <ActionForm
          {...common}
          action={isFrozen ? "unfreeze" : "freeze"}
          title={isFrozen ? "Unfreeze" : "Freeze"}
          description={
            isFrozen
              ? "Lets the account make calls again."
              : "No call begins any more, on any key, provider keys of its own included. Everything can still be read, and calls that run go on."
          }
          button={isFrozen ? "Unfreeze the account" : "Freeze the account"}
          isDangerous={!isFrozen}
        />
        {owed === 0n ? null : (
          <ActionForm
            {...common}
            action="write_off"
            title="Write off"
            description={`The house bears the ${formatUsd(owed)} that the account owes after a dispute.`}
            button="Bear it"
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
      <form method="post" action={accountPath(accountId)}>
        <input type="hidden" name="csrf" value={operator.csrf} />
        <input type="hidden" name="form" value={newFormToken()} />
        <input type="hidden" name="do" value={action} />
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
      </form>
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
  ["", "by the rule"],
  ["paid", "paid only"],
  ["promo", "promotional only"],
] as const;

/** Keeps what was chosen: sent again without it, the form would touch another bucket. */
function BucketField({
  formValues,
}: {
  readonly formValues: Readonly<Record<string, string>>;
}): Child {
  const chosen = formValues["do"] === "adjust" ? formValues["bucket"] : undefined;
  return (
    <>
      <label for="adjust-bucket">Bucket</label>
      <select id="adjust-bucket" name="bucket">
        {BUCKET_OPTIONS.map(([value, label]) => (
          <option value={value} selected={value === chosen}>
            {label}
          </option>
        ))}
      </select>
    </>
  );
}

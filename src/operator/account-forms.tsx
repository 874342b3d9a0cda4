/** @jsxImportSource hono/jsx */
// What an operator may do to an account. Each form has a name of its own, so that what is sent twice is done once.

import type { Child } from "hono/jsx";
import { money } from "../console/words.ts";
import type { AccountFile } from "./account.ts";
import { pathOfAccount } from "./frame.tsx";
import { newFormName } from "../idempotency/form.ts";
import type { Operator } from "./sessions.ts";

interface FormsProps {
  readonly operator: Operator;
  readonly file: AccountFile;
  readonly typed: Readonly<Record<string, string>>;
}

export function AccountForms({ operator, file, typed }: FormsProps): Child {
  const { account, freeze, owed } = file;
  const isFrozen = freeze?.by === "operator";
  const common = { operator, accountId: account.id, typed };
  return (
    <>
      <h2>Change it</h2>
      <p class="note">
        The reason is kept with the change, and the account's owner can read it in their audit log.
      </p>
      <div class="side-by-side">
        <ActForm
          {...common}
          act="grant"
          title="Grant"
          says="Promotional credit: spent first, never refunded."
          button="Grant the credit"
        >
          <Usd act="grant" typed={typed} says="US dollars" />
        </ActForm>
        <ActForm
          {...common}
          act="adjust"
          title="Adjust"
          says="Corrects the balance. Upwards it goes to paid credit, after what is owed; downwards it is taken from promotional credit first. Never below zero."
          button="Adjust the balance"
        >
          <Usd act="adjust" typed={typed} says="US dollars, with − for less" />
          <BucketField typed={typed} />
        </ActForm>
        <ActForm
          {...common}
          act={isFrozen ? "unfreeze" : "freeze"}
          title={isFrozen ? "Unfreeze" : "Freeze"}
          says={
            isFrozen
              ? "Lets the account make calls again."
              : "No call begins any more, on any key, provider keys of its own included. Everything can still be read, and calls that run go on."
          }
          button={isFrozen ? "Unfreeze the account" : "Freeze the account"}
          isDangerous={!isFrozen}
        />
        {owed === 0n ? null : (
          <ActForm
            {...common}
            act="write_off"
            title="Write off"
            says={`The house bears the ${money(owed)} that the account owes after a dispute.`}
            button="Bear it"
            isDangerous
          />
        )}
      </div>
    </>
  );
}

interface ActFormProps {
  readonly operator: Operator;
  readonly accountId: string;
  readonly typed: Readonly<Record<string, string>>;
  readonly act: string;
  readonly title: string;
  readonly says: string;
  readonly button: string;
  readonly isDangerous?: boolean;
  readonly children?: Child;
}

function ActForm(props: ActFormProps): Child {
  const { operator, accountId, typed, act, title, says, button, isDangerous, children } = props;
  return (
    <section class="card" aria-labelledby={`${act}-title`}>
      <h3 id={`${act}-title`}>{title}</h3>
      <p class="hint">{says}</p>
      <form method="post" action={pathOfAccount(accountId)}>
        <input type="hidden" name="csrf" value={operator.csrf} />
        <input type="hidden" name="form" value={newFormName()} />
        <input type="hidden" name="do" value={act} />
        {children}
        <label for={`${act}-reason`}>Reason</label>
        <input
          id={`${act}-reason`}
          name="reason"
          required
          maxlength={500}
          autocomplete="off"
          value={typed["do"] === act ? (typed["reason"] ?? "") : ""}
        />
        <button type="submit" class={isDangerous === true ? "danger" : undefined}>
          {button}
        </button>
      </form>
    </section>
  );
}

function Usd({
  act,
  typed,
  says,
}: {
  readonly act: string;
  readonly typed: Readonly<Record<string, string>>;
  readonly says: string;
}): Child {
  return (
    <>
      <label for={`${act}-usd`}>{says}</label>
      <input
        id={`${act}-usd`}
        name="usd"
        required
        inputmode="decimal"
        autocomplete="off"
        pattern="[+\-−]?[0-9]{1,7}([.][0-9]{1,9})?"
        value={typed["do"] === act ? (typed["usd"] ?? "") : ""}
      />
    </>
  );
}

const BUCKETS = [
  ["", "by the rule"],
  ["paid", "paid only"],
  ["promo", "promotional only"],
] as const;

/** Keeps what was chosen: sent again without it, the form would touch another bucket. */
function BucketField({ typed }: { readonly typed: Readonly<Record<string, string>> }): Child {
  const chosen = typed["do"] === "adjust" ? typed["bucket"] : undefined;
  return (
    <>
      <label for="adjust-bucket">Bucket</label>
      <select id="adjust-bucket" name="bucket">
        {BUCKETS.map(([value, label]) => (
          <option value={value} selected={value === chosen}>
            {label}
          </option>
        ))}
      </select>
    </>
  );
}

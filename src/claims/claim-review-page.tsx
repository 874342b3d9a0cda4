/** @jsxImportSource hono/jsx */
// The page on which a human decides. It must be judged in five seconds by somebody who expected nothing: who asks, what
// comes with it, what it risks, and two buttons of the same size.

import type { Child } from "hono/jsx";
import { formatAge, formatDuration, formatUsd, pluralize } from "../base/format.ts";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";
import type { Key } from "../keys/keys.ts";
import type { ClaimAttempt } from "./claim-attempt.ts";
import {
  keyFieldNames,
  type FormFields,
  OTHERS_FIELD,
  type InvalidChoice,
} from "./key-choices-form.ts";
import type { ClaimReview } from "./claim-review.ts";
import { describeNetwork, describeSetup, formatUserCode } from "./format.ts";

export interface ReviewPageProps {
  readonly attempt: ClaimAttempt;
  readonly review: ClaimReview;
  readonly visitor: SessionUser;
  /** The code that stood in the link, to compare; absent where it must be typed. */
  readonly userCode: string | undefined;
  readonly now: number;
  /** What was typed before, and what was wrong with it. */
  readonly typed?: FormFields;
  readonly codeError?: string;
  readonly invalidChoice?: InvalidChoice;
}

export function reviewPage(props: ReviewPageProps): PageLayout {
  const isJoining = props.attempt.invitation;
  return {
    title: isJoining ? "Join a workspace" : "Take over an agent's account",
    isPrivate: true,
    main: (
      <>
        {isJoining ? <JoinHead {...props} /> : <TakeOverHead {...props} />}
        <form method="post" action="/claim">
          <input type="hidden" name="csrf" value={props.visitor.csrf} />
          <input type="hidden" name="attempt" value={props.attempt.id} />
          <CodeComparison {...props} />
          {isJoining ? <JoinFacts {...props} /> : <TakeOverFacts {...props} />}
          {isJoining ? null : <KeyChoices {...props} />}
          <div class="actions">
            <button type="submit" name="decision" value="confirm">
              {isJoining ? "Join the workspace" : "Take over the account"}
            </button>
            <button type="submit" name="decision" value="decline" class="secondary" formnovalidate>
              Decline
            </button>
          </div>
        </form>
      </>
    ),
    footer: (
      <p>
        Signed in as {props.visitor.email}.{" "}
        <a href="/signin?switch=1&return_to=%2Fclaim">Use another account</a>
      </p>
    ),
  };
}

function TakeOverHead({ review, attempt, visitor, now }: ReviewPageProps): Child {
  return (
    <>
      <h1>An agent wants to hand you its account</h1>
      <p class="intro">
        A program opened this account {formatAge(review.openedAt, now)}, without a person. It now
        says that the account is for you, {visitor.email}.
      </p>
      <p class="notice warn">
        <strong>Did you ask an agent for this?</strong> If not, decline: nothing is lost. The link
        works for another {formatDuration(attempt.expiresAt - now)}.
      </p>
    </>
  );
}

function JoinHead({ review, visitor, attempt, now }: ReviewPageProps): Child {
  return (
    <>
      <h1>An agent invites you to a workspace</h1>
      <p class="intro">
        The workspace belongs to {review.owner ?? "somebody else"}. A program that holds one of its
        keys asks you, {visitor.email}, to join it as a developer.
      </p>
      <p class="notice warn">
        <strong>Do you know this workspace?</strong> If not, decline: nothing is lost. The link
        works for another {formatDuration(attempt.expiresAt - now)}.
      </p>
    </>
  );
}

function CodeComparison({ userCode, codeError }: ReviewPageProps): Child {
  if (userCode !== undefined && codeError === undefined)
    return (
      <section class="card compare" aria-labelledby="compare">
        <p id="compare">Your agent should show this code:</p>
        <strong class="code-digits">{formatUserCode(userCode)}</strong>
        <p class="note">If it shows another one, or none, decline.</p>
        <input type="hidden" name="user_code" value={userCode} />
      </section>
    );
  return (
    <section class="card compare">
      <label for="user_code">The six digits that your agent shows</label>
      <input
        id="user_code"
        class="code-digits"
        name="user_code"
        type="text"
        inputmode="numeric"
        pattern="[0-9 ]{6,7}"
        maxlength={7}
        autocomplete="one-time-code"
        required
        aria-invalid={codeError === undefined ? undefined : "true"}
        aria-describedby={codeError === undefined ? undefined : "wrong-code"}
        autofocus={codeError !== undefined}
      />
      <FieldError id="wrong-code" message={codeError} />
    </section>
  );
}

function TakeOverFacts({ review, attempt, now }: ReviewPageProps): Child {
  const setUp = describeSetup(review);
  return (
    <dl class="details">
      <dt>Who asks</dt>
      <dd>
        The agent-created account <code>{review.accountId}</code>,{" "}
        {describeOrigin(review, attempt, now)}
      </dd>
      <dt>You get</dt>
      <dd>
        Its balance of {formatUsd(review.balance)}
        {review.bonus === 0n ? "" : ` and a bonus of ${formatUsd(review.bonus)}, once per person`},
        its {pluralize(review.keys.length + review.moreKeys, "key")} and its records
        {review.bonusState === "spent_today"
          ? ". No bonus today: what this gateway gives away in a day has been given"
          : ""}
      </dd>
      <dt>Used so far</dt>
      <dd>
        {review.calls === 0
          ? "Nothing"
          : `${pluralize(review.calls, "model call")} for ${formatUsd(review.spent)}`}
      </dd>
      {setUp.length === 0 ? null : (
        <>
          <dt>Set up in it</dt>
          {setUp.map((line) => (
            <dd>{line}</dd>
          ))}
        </>
      )}
      <dt>It risks</dt>
      <dd>
        <strong>Whoever holds one of its keys can spend this balance</strong>, and what you add to
        it later
      </dd>
    </dl>
  );
}

function describeOrigin(review: ClaimReview, attempt: ClaimAttempt, now: number): string {
  const opened = `opened ${formatAge(review.openedAt, now)}`;
  const asked = `asked ${formatAge(attempt.createdAt, now)}`;
  return review.openedFrom === attempt.network
    ? `${opened}; it ${asked}, both from ${describeNetwork(attempt.network)}`
    : `${opened} from ${describeNetwork(review.openedFrom)}; it ${asked} from ${describeNetwork(attempt.network)}`;
}

function JoinFacts({ review, attempt, now }: ReviewPageProps): Child {
  return (
    <dl class="details">
      <dt>Who asks</dt>
      <dd>
        The workspace <code>{review.accountId}</code>, opened {formatAge(review.openedAt, now)}; it
        asked {formatAge(attempt.createdAt, now)} from {describeNetwork(attempt.network)}
      </dd>
      <dt>You may</dt>
      <dd>See its usage, and make and use keys that spend its balance</dd>
      <dt>You may not</dt>
      <dd>Buy credits, invite or remove people</dd>
      <dt>Others see</dt>
      <dd>Your email address; the workspace has {pluralize(review.memberCount, "member")} now</dd>
    </dl>
  );
}

function KeyChoices({ review, attempt, typed, invalidChoice, now }: ReviewPageProps): Child {
  return (
    <section aria-labelledby="keys">
      <h2 id="keys">Its keys</h2>
      <p>Keep the keys that you know; limit or revoke the others.</p>
      {review.keys.map((key) => (
        <KeyFields
          apiKey={key}
          isRequesting={key.id === attempt.keyId}
          typed={typed ?? {}}
          error={invalidChoice?.keyId === key.id ? invalidChoice.message : undefined}
          now={now}
        />
      ))}
      {review.keys.length === 0 ? <p>No key of this account works any more.</p> : null}
      {review.moreKeys === 0 ? null : (
        <div class="option">
          <input
            type="checkbox"
            id={OTHERS_FIELD}
            name={OTHERS_FIELD}
            value="revoke"
            checked={typed?.[OTHERS_FIELD] === "revoke"}
          />
          <label for={OTHERS_FIELD}>
            Revoke the {pluralize(review.moreKeys, "key")} not listed here
          </label>
        </div>
      )}
    </section>
  );
}

interface KeyFieldsProps {
  readonly apiKey: Key;
  /** Whether it is the key of the agent that asks. */
  readonly isRequesting: boolean;
  readonly typed: FormFields;
  readonly error: string | undefined;
  readonly now: number;
}

function KeyFields({ apiKey: key, isRequesting, typed, error, now }: KeyFieldsProps): Child {
  const names = keyFieldNames(key.id);
  const wrongId = `${names.usd}.wrong`;
  const chosen = typed[names.choice] ?? "keep";
  const used =
    key.lastUsedAt === null
      ? isRequesting
        ? "used just now"
        : "never used"
      : `last used ${formatAge(key.lastUsedAt, now)}`;
  const radio = (value: string) => (
    <input
      type="radio"
      id={`${names.choice}.${value}`}
      name={names.choice}
      value={value}
      checked={chosen === value}
    />
  );
  return (
    <fieldset>
      <legend>
        <bdi>{key.name ?? "Key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>
      </legend>
      <p class="hint">
        {isRequesting ? "The agent that asks uses this one; " : ""}
        made {formatAge(key.createdAt, now)}, {used}, {formatUsd(key.spent)} spent
        {key.limit === null
          ? ""
          : `, limited to ${formatUsd(key.limit)}${key.limitWindow === null ? " in all" : ` a ${key.limitWindow}`}`}
      </p>
      <div class="option">
        {radio("keep")}
        <label for={`${names.choice}.keep`}>Keep it as it is</label>
      </div>
      <div class="option amount">
        {radio("limit")}
        <label for={`${names.choice}.limit`}>Limit it to</label>
        <input
          type="text"
          inputmode="decimal"
          name={names.usd}
          value={typed[names.usd] ?? "5"}
          aria-label="Limit in US dollars"
          aria-invalid={error === undefined ? undefined : "true"}
          aria-describedby={error === undefined ? undefined : wrongId}
          autofocus={error !== undefined}
        />
        <span>US dollars</span>
        <select name={names.window} aria-label="How often the limit opens again">
          {WINDOW_LABELS.map(([value, label]) => (
            <option value={value} selected={(typed[names.window] ?? "month") === value}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <div class="option">
        {radio("revoke")}
        <label for={`${names.choice}.revoke`}>
          Revoke it{isRequesting ? ": this agent is locked out at once" : ""}
        </label>
      </div>
      <FieldError id={wrongId} message={error} />
    </fieldset>
  );
}

function FieldError({
  id,
  message,
}: {
  readonly id: string;
  readonly message: string | undefined;
}): Child {
  return message === undefined ? null : (
    <p class="error" id={id} role="alert">
      {message}
    </p>
  );
}

const WINDOW_LABELS = [
  ["day", "a day"],
  ["week", "a week"],
  ["month", "a month"],
  ["ever", "in all"],
] as const;

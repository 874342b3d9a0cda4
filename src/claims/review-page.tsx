/** @jsxImportSource hono/jsx */
// The page on which a human decides. It must be judged in five seconds by somebody who expected nothing: who asks, what
// comes with it, what it risks, and two buttons of the same size.

import type { Child } from "hono/jsx";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import type { Key } from "../keys/keys.ts";
import type { Attempt } from "./attempt.ts";
import { fieldsOf, type FormFields, OTHERS_FIELD, type WrongChoice } from "./choices-form.ts";
import type { Review } from "./review.ts";
import { ago, count, dollars, halves, place, setUpWords, span } from "./words.ts";

export interface ReviewState {
  readonly attempt: Attempt;
  readonly review: Review;
  readonly visitor: Visitor;
  /** The code that stood in the link, to compare; absent where it must be typed. */
  readonly userCode: string | undefined;
  readonly now: number;
  /** What was typed before, and what was wrong with it. */
  readonly typed?: FormFields;
  readonly wrongCode?: string;
  readonly wrongChoice?: WrongChoice;
}

export function reviewPage(state: ReviewState): PageFrame {
  const isJoining = state.attempt.invitation;
  return {
    title: isJoining ? "Join a workspace" : "Take over an agent's account",
    isPrivate: true,
    main: (
      <>
        {isJoining ? <JoinHead {...state} /> : <TakeOverHead {...state} />}
        <form method="post" action="/claim">
          <input type="hidden" name="csrf" value={state.visitor.csrf} />
          <input type="hidden" name="attempt" value={state.attempt.id} />
          <Compare {...state} />
          {isJoining ? <JoinFacts {...state} /> : <TakeOverFacts {...state} />}
          {isJoining ? null : <Keys {...state} />}
          <div class="choices">
            <button type="submit" name="decision" value="confirm">
              {isJoining ? "Join the workspace" : "Take over the account"}
            </button>
            <button type="submit" name="decision" value="decline" class="quiet" formnovalidate>
              Decline
            </button>
          </div>
        </form>
      </>
    ),
    foot: (
      <p>
        Signed in as {state.visitor.email}.{" "}
        <a href="/signin?switch=1&return_to=%2Fclaim">Use another account</a>
      </p>
    ),
  };
}

function TakeOverHead({ review, attempt, visitor, now }: ReviewState): Child {
  return (
    <>
      <h1>An agent wants to hand you its account</h1>
      <p class="lede">
        A program opened this account {ago(review.openedAt, now)}, without a person. It now says
        that the account is for you, {visitor.email}.
      </p>
      <p class="notice warn">
        <strong>Did you ask an agent for this?</strong> If not, decline: nothing is lost. The link
        works for another {span(attempt.expiresAt - now)}.
      </p>
    </>
  );
}

function JoinHead({ review, visitor, attempt, now }: ReviewState): Child {
  return (
    <>
      <h1>An agent invites you to a workspace</h1>
      <p class="lede">
        The workspace belongs to {review.owner ?? "somebody else"}. A program that holds one of its
        keys asks you, {visitor.email}, to join it as a developer.
      </p>
      <p class="notice warn">
        <strong>Do you know this workspace?</strong> If not, decline: nothing is lost. The link
        works for another {span(attempt.expiresAt - now)}.
      </p>
    </>
  );
}

function Compare({ userCode, wrongCode }: ReviewState): Child {
  if (userCode !== undefined && wrongCode === undefined)
    return (
      <section class="card compare" aria-labelledby="compare">
        <p id="compare">Your agent should show this code:</p>
        <strong class="code-digits">{halves(userCode)}</strong>
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
        aria-invalid={wrongCode === undefined ? undefined : "true"}
        aria-describedby={wrongCode === undefined ? undefined : "wrong-code"}
        autofocus={wrongCode !== undefined}
      />
      <Wrong id="wrong-code" said={wrongCode} />
    </section>
  );
}

function TakeOverFacts({ review, attempt, now }: ReviewState): Child {
  const setUp = setUpWords(review);
  return (
    <dl class="facts">
      <dt>Who asks</dt>
      <dd>
        The agent-created account <code>{review.accountId}</code>, {originOf(review, attempt, now)}
      </dd>
      <dt>You get</dt>
      <dd>
        Its balance of {dollars(review.balance)}
        {review.bonus === 0n ? "" : ` and a bonus of ${dollars(review.bonus)}, once per person`},
        its {count(review.keys.length + review.moreKeys, "key")} and its records
        {review.bonusState === "spent_today"
          ? ". No bonus today: what this gateway gives away in a day has been given"
          : ""}
      </dd>
      <dt>Used so far</dt>
      <dd>
        {review.calls === 0
          ? "Nothing"
          : `${count(review.calls, "model call")} for ${dollars(review.spent)}`}
      </dd>
      {setUp.length === 0 ? null : (
        <>
          <dt>Set up in it</dt>
          {setUp.map((said) => (
            <dd>{said}</dd>
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

function originOf(review: Review, attempt: Attempt, now: number): string {
  const opened = `opened ${ago(review.openedAt, now)}`;
  const asked = `asked ${ago(attempt.createdAt, now)}`;
  return review.openedFrom === attempt.network
    ? `${opened}; it ${asked}, both from ${place(attempt.network)}`
    : `${opened} from ${place(review.openedFrom)}; it ${asked} from ${place(attempt.network)}`;
}

function JoinFacts({ review, attempt, now }: ReviewState): Child {
  return (
    <dl class="facts">
      <dt>Who asks</dt>
      <dd>
        The workspace <code>{review.accountId}</code>, opened {ago(review.openedAt, now)}; it asked{" "}
        {ago(attempt.createdAt, now)} from {place(attempt.network)}
      </dd>
      <dt>You may</dt>
      <dd>See its usage, and make and use keys that spend its balance</dd>
      <dt>You may not</dt>
      <dd>Buy credits, invite or remove people</dd>
      <dt>Others see</dt>
      <dd>Your email address; the workspace has {count(review.memberCount, "member")} now</dd>
    </dl>
  );
}

function Keys({ review, attempt, typed, wrongChoice, now }: ReviewState): Child {
  return (
    <section aria-labelledby="keys">
      <h2 id="keys">Its keys</h2>
      <p>Keep the keys that you know; limit or revoke the others.</p>
      {review.keys.map((key) => (
        <KeyFields
          apiKey={key}
          isAsking={key.id === attempt.keyId}
          typed={typed ?? {}}
          wrong={wrongChoice?.keyId === key.id ? wrongChoice.message : undefined}
          now={now}
        />
      ))}
      {review.keys.length === 0 ? <p>No key of this account works any more.</p> : null}
      {review.moreKeys === 0 ? null : (
        <div class="choice">
          <input
            type="checkbox"
            id={OTHERS_FIELD}
            name={OTHERS_FIELD}
            value="revoke"
            checked={typed?.[OTHERS_FIELD] === "revoke"}
          />
          <label for={OTHERS_FIELD}>
            Revoke the {count(review.moreKeys, "key")} not listed here
          </label>
        </div>
      )}
    </section>
  );
}

interface KeyFieldsProps {
  readonly apiKey: Key;
  /** Whether it is the key of the agent that asks. */
  readonly isAsking: boolean;
  readonly typed: FormFields;
  readonly wrong: string | undefined;
  readonly now: number;
}

function KeyFields({ apiKey: key, isAsking, typed, wrong, now }: KeyFieldsProps): Child {
  const names = fieldsOf(key.id);
  const wrongId = `${names.usd}.wrong`;
  const chosen = typed[names.choice] ?? "keep";
  const used =
    key.lastUsedAt === null
      ? isAsking
        ? "used just now"
        : "never used"
      : `last used ${ago(key.lastUsedAt, now)}`;
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
        {isAsking ? "The agent that asks uses this one; " : ""}
        made {ago(key.createdAt, now)}, {used}, {dollars(key.spent)} spent
        {key.limit === null
          ? ""
          : `, limited to ${dollars(key.limit)}${key.limitWindow === null ? " in all" : ` a ${key.limitWindow}`}`}
      </p>
      <div class="choice">
        {radio("keep")}
        <label for={`${names.choice}.keep`}>Keep it as it is</label>
      </div>
      <div class="choice amount">
        {radio("limit")}
        <label for={`${names.choice}.limit`}>Limit it to</label>
        <input
          type="text"
          inputmode="decimal"
          name={names.usd}
          value={typed[names.usd] ?? "5"}
          aria-label="Limit in US dollars"
          aria-invalid={wrong === undefined ? undefined : "true"}
          aria-describedby={wrong === undefined ? undefined : wrongId}
          autofocus={wrong !== undefined}
        />
        <span>US dollars</span>
        <select name={names.window} aria-label="How often the limit opens again">
          {WINDOWS.map(([value, label]) => (
            <option value={value} selected={(typed[names.window] ?? "month") === value}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <div class="choice">
        {radio("revoke")}
        <label for={`${names.choice}.revoke`}>
          Revoke it{isAsking ? ": this agent is locked out at once" : ""}
        </label>
      </div>
      <Wrong id={wrongId} said={wrong} />
    </fieldset>
  );
}

function Wrong({ id, said }: { readonly id: string; readonly said: string | undefined }): Child {
  return said === undefined ? null : (
    <p class="wrong" id={id} role="alert">
      {said}
    </p>
  );
}

const WINDOWS = [
  ["day", "a day"],
  ["week", "a week"],
  ["month", "a month"],
  ["ever", "in all"],
] as const;

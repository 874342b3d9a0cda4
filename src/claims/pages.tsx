/** @jsxImportSource hono/jsx */
// The pages of the ceremony beside the one on which a human decides: one for each state of an attempt.

import type { Child } from "hono/jsx";
import type { Role } from "../accounts/members.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import type { Attempt, State } from "./attempt.ts";
import { maskEmail } from "./email.ts";
import type { Review } from "./review.ts";
import { count, dollars, setUpWords } from "./words.ts";

/** What a page says, and with which status. */
export interface ClaimPage {
  readonly status: number;
  readonly frame: PageFrame;
}

const SIGN_IN = "/signin?return_to=%2Fclaim";
const SWITCH = "/signin?switch=1&return_to=%2Fclaim";

export function invalidPage(): ClaimPage {
  return plain(404, "This link leads nowhere", [
    "It is incomplete, or it belongs to no claim on this gateway.",
    "Ask your agent for the full link once more, or for a new one.",
  ]);
}

const DEAD: Readonly<
  Record<Exclude<State, "initiated" | "claimed">, readonly [number, string, readonly string[]]>
> = {
  expired: [
    410,
    "This link has run out",
    [
      "A link works for fifteen minutes. Nothing was changed.",
      "If you still want the account, ask your agent to start a new claim.",
    ],
  ],
  superseded: [
    410,
    "There is a newer link",
    [
      "Your agent has started again, and this older link no longer works. Nothing was changed.",
      "Open the newest link that your agent has given you.",
    ],
  ],
  locked: [
    410,
    "Too many wrong codes",
    [
      "After five wrong codes a link is closed, so that nobody can guess. Nothing was changed.",
      "If you still want the account, ask your agent to start a new claim, and compare the code.",
    ],
  ],
  declined: [
    200,
    "You declined",
    [
      "Nothing was changed, and the account is not yours. The agent is told no.",
      "If it was a mistake, ask your agent to start a new claim.",
    ],
  ],
  overtaken: [
    409,
    "Somebody else was first",
    [
      "The account was claimed with another email address before you confirmed.",
      "If you work together, ask its owner, or your agent, to invite you.",
    ],
  ],
};

export function deadPage(state: keyof typeof DEAD): ClaimPage {
  const [status, title, paragraphs] = DEAD[state];
  return plain(status, title, paragraphs);
}

export function isDead(state: State): state is keyof typeof DEAD {
  return Object.hasOwn(DEAD, state);
}

export function claimedByAnotherPage(): ClaimPage {
  return plain(409, "Already claimed", [
    "This link was used before, by another person with this address. Nothing was changed.",
    "If that was not you, ask the operator of this gateway for help.",
  ]);
}

/** For whoever used this link themselves, and does not belong to its workspace any more. */
export function formerMemberPage(visitor: Visitor): ClaimPage {
  return page(
    403,
    "You have left this workspace",
    () => (
      <>
        <h1>You have left this workspace</h1>
        <p class="lede">
          You used this link before. Since then you have left its workspace, or its owner has taken
          you out of it.
        </p>
        <p>If you work there again, ask its owner to invite you.</p>
      </>
    ),
    visitor,
  );
}

/** The cookie knows the newest link alone, and a form of an older tab means another claim than the page that is shown. */
export function fromAnotherPage({ status, frame }: ClaimPage): ClaimPage {
  return {
    status: status === 200 ? 409 : status,
    frame: {
      ...frame,
      main: (
        <>
          <p class="notice danger" role="alert">
            <strong>Nothing was done.</strong> What you pressed was on the page of another claim,
            and this page is about the claim whose link you opened last. To decide about the other
            one, open its link again.
          </p>
          {frame.main}
        </>
      ),
    },
  };
}

/** For whoever is not signed in: nothing about the account is shown to them. */
export function landingPage(isLinked: boolean): ClaimPage {
  return page(200, "Sign in to continue", () => (
    <>
      <h1>{isLinked ? "An agent has something for you" : "Take over an agent's account"}</h1>
      <p class="lede">
        {isLinked
          ? "A program that opened an account here, or works in one, names you as the person it is for."
          : "If an agent gave you a six-digit code, sign in and type it here."}
      </p>
      <p>
        Sign in with the address that you gave to the agent. You see what it is about before
        anything happens, and you can decline.
      </p>
      <p>
        <a class="button" href={SIGN_IN}>
          Sign in
        </a>
      </p>
    </>
  ));
}

export function codePage(visitor: Visitor, wrong?: { status: number; message: string }): ClaimPage {
  return page(
    wrong?.status ?? 200,
    "Enter the code",
    () => (
      <>
        <h1>Enter the code</h1>
        <p class="lede">Your agent shows six digits. They lead to the account that it speaks of.</p>
        <form method="post" action="/claim/code">
          <input type="hidden" name="csrf" value={visitor.csrf} />
          <label for="user_code">Six digits</label>
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
            aria-invalid={wrong === undefined ? undefined : "true"}
            aria-describedby={wrong === undefined ? undefined : "wrong-code"}
          />
          {wrong === undefined ? null : (
            <p class="wrong" id="wrong-code" role="alert">
              {wrong.message}
            </p>
          )}
          <p class="hint">
            <button type="submit">Continue</button>
          </p>
        </form>
      </>
    ),
    visitor,
  );
}

/** Shown before any form. Whose claim it is stays half hidden: the link may have gone astray. */
export function wrongAccountPage(attempt: Attempt, visitor: Visitor): ClaimPage {
  return page(403, "Wrong account", () => (
    <>
      <h1>This is for another account</h1>
      <p class="lede">
        You are signed in as {visitor.email}, but the agent named{" "}
        <strong>{maskEmail(attempt.email)}</strong>.
      </p>
      <p>
        If that address is yours too, sign in with it. Otherwise close this page: nothing was
        changed.
      </p>
      <p>
        <a class="button" href={SWITCH}>
          Sign in with another account
        </a>
      </p>
    </>
  ));
}

export interface Done {
  readonly attempt: Attempt;
  /** What they are in the workspace now: it may have been handed over since. */
  readonly role: Role;
  readonly review: Review;
  readonly visitor: Visitor;
  /** Where the person goes on from here; absent where there is no console. */
  readonly home: string | undefined;
}

export function donePage(done: Done): ClaimPage {
  const { role, visitor, home } = done;
  return page(
    200,
    role === "owner" ? "The account is yours" : "You have joined",
    () => (
      <>
        {role === "owner" ? <OwnerDone {...done} /> : <DeveloperDone {...done} />}
        {home === undefined ? null : (
          <p>
            <a class="button" href={home}>
              Open the workspace
            </a>
          </p>
        )}
        <p class="note">
          Your agent learns of this by itself. You can close this page, or see{" "}
          <a href="/sessions">where you are signed in</a>.
        </p>
      </>
    ),
    visitor,
  );
}

const ONCE = "No bonus was added: it is given once per person.";
const LATE =
  "No bonus was added: what this gateway gives away in a day had been given when you confirmed. You have not had yours, so another account that you claim may bring it.";
const NO_BONUS = { had: ONCE, open: LATE, spent_today: LATE } as const;

function OwnerDone({ attempt, review }: Done): Child {
  const keys = review.keys.length + review.moreKeys;
  const setUp = setUpWords(review);
  return (
    <>
      <h1>The account is yours</h1>
      <p class="lede">
        <code>{review.accountId}</code> is now a workspace that you own, with a balance of{" "}
        {dollars(review.balance)}.
      </p>
      <h2>What happened</h2>
      <ul>
        {attempt.invitation ? (
          <li>
            {attempt.claimedRole === "owner"
              ? "You owned this workspace already. Nothing was changed."
              : "You joined it as a developer, and it was handed over to you since."}
          </li>
        ) : (
          <li>
            {attempt.bonus > 0n
              ? `A bonus of ${dollars(attempt.bonus)} was added to the balance.`
              : NO_BONUS[review.bonusState]}
          </li>
        )}
        <li>
          {keys === 0
            ? "No key works any more, so no agent can use the account now."
            : `${count(keys, "key")} ${keys === 1 ? "works" : "work"}: whoever holds ${keys === 1 ? "it" : "one"} can spend the balance.`}
          <KeyList review={review} />
        </li>
        {setUp.map((said) => (
          <li>{said}.</li>
        ))}
        <li>Workspaces that you had before are as they were.</li>
      </ul>
      <h2>What next</h2>
      <p>
        Before you add credits, revoke or limit every key that you do not know
        {review.webhookHosts.length === 0 ? "" : ", and delete every such webhook"}. Calls are
        billed at the providers' list prices from this balance
        {review.ownProviders.length === 0 ? "" : ", but for those on provider keys"}.
      </p>
    </>
  );
}

function KeyList({ review }: { readonly review: Review }): Child {
  if (review.keys.length === 0) return null;
  return (
    <ul>
      {review.keys.map((key) => (
        <li>
          <bdi>{key.name ?? "Key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>
          {key.limit === null
            ? ", without a limit"
            : `, limited to ${dollars(key.limit)}${key.limitWindow === null ? "" : ` a ${key.limitWindow}`}`}
        </li>
      ))}
      {review.moreKeys === 0 ? null : <li>and {count(review.moreKeys, "other")}</li>}
    </ul>
  );
}

function DeveloperDone({ review }: Done): Child {
  return (
    <>
      <h1>You have joined the workspace</h1>
      <p class="lede">
        You are a developer in <code>{review.accountId}</code>, which belongs to{" "}
        {review.owner ?? "its owner"}.
      </p>
      <p>
        You can see its usage, and make and use keys. Workspaces that you had before are as they
        were.
      </p>
    </>
  );
}

function plain(status: number, title: string, paragraphs: readonly string[]): ClaimPage {
  return page(status, title, () => (
    <>
      <h1>{title}</h1>
      {paragraphs.map((paragraph, place) => (
        <p class={place === 0 ? "lede" : undefined}>{paragraph}</p>
      ))}
    </>
  ));
}

function page(status: number, title: string, main: () => Child, visitor?: Visitor): ClaimPage {
  return {
    status,
    frame: {
      title,
      isPrivate: true,
      main: main(),
      foot:
        visitor === undefined ? undefined : (
          <form method="post" action="/signout">
            <p>
              Signed in as {visitor.email}. <input type="hidden" name="csrf" value={visitor.csrf} />
              <button type="submit" class="quiet">
                Sign out
              </button>
            </p>
          </form>
        ),
    },
  };
}

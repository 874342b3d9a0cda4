/** @jsxImportSource hono/jsx */
// The pages of the ceremony beside the one on which a human decides: one for each state of an attempt.

import type { Child } from "hono/jsx";
import { formatUsd, pluralize } from "../base/format.ts";
import type { Role } from "../accounts/members.ts";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";
import type { ClaimAttempt, ClaimState } from "./claim-attempt.ts";
import { maskEmail } from "./email-address.ts";
import type { ClaimReview } from "./claim-review.ts";
import { describeSetup } from "./format.ts";

/** What a page says, and with which status. */
export interface ClaimPage {
  readonly status: number;
  readonly frame: PageLayout;
}

const SIGN_IN_URL = "/signin?return_to=%2Fclaim";
const SWITCH_ACCOUNT_URL = "/signin?switch=1&return_to=%2Fclaim";

export function invalidPage(): ClaimPage {
  return textPage(404, "This link leads nowhere", [
    "It is incomplete, or it belongs to no claim on this gateway.",
    "Ask your agent for the full link once more, or for a new one.",
  ]);
}

const ENDED_PAGES: Readonly<
  Record<Exclude<ClaimState, "initiated" | "claimed">, readonly [number, string, readonly string[]]>
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

export function endedPage(state: keyof typeof ENDED_PAGES): ClaimPage {
  const [status, title, paragraphs] = ENDED_PAGES[state];
  return textPage(status, title, paragraphs);
}

export function isEnded(state: ClaimState): state is keyof typeof ENDED_PAGES {
  return Object.hasOwn(ENDED_PAGES, state);
}

export function claimedByAnotherPage(): ClaimPage {
  return textPage(409, "Already claimed", [
    "This link was used before, by another person with this address. Nothing was changed.",
    "If that was not you, ask the operator of this gateway for help.",
  ]);
}

/** For whoever used this link themselves, and does not belong to its workspace any more. */
export function formerMemberPage(visitor: SessionUser): ClaimPage {
  return page(
    403,
    "You have left this workspace",
    () => (
      <>
        <h1>You have left this workspace</h1>
        <p class="intro">
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
export function staleFormPage({ status, frame }: ClaimPage): ClaimPage {
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
      <p class="intro">
        {isLinked
          ? "A program that opened an account here, or works in one, names you as the person it is for."
          : "If an agent gave you a six-digit code, sign in and type it here."}
      </p>
      <p>
        Sign in with the address that you gave to the agent. You see what it is about before
        anything happens, and you can decline.
      </p>
      <p>
        <a class="button" href={SIGN_IN_URL}>
          Sign in
        </a>
      </p>
    </>
  ));
}

export function codePage(
  visitor: SessionUser,
  error?: { status: number; message: string },
): ClaimPage {
  return page(
    error?.status ?? 200,
    "Enter the code",
    () => (
      <>
        <h1>Enter the code</h1>
        <p class="intro">
          Your agent shows six digits. They lead to the account that it speaks of.
        </p>
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
            aria-invalid={error === undefined ? undefined : "true"}
            aria-describedby={error === undefined ? undefined : "wrong-code"}
          />
          {error === undefined ? null : (
            <p class="error" id="wrong-code" role="alert">
              {error.message}
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
export function wrongAccountPage(attempt: ClaimAttempt, visitor: SessionUser): ClaimPage {
  return page(403, "Wrong account", () => (
    <>
      <h1>This is for another account</h1>
      <p class="intro">
        You are signed in as {visitor.email}, but the agent named{" "}
        <strong>{maskEmail(attempt.email)}</strong>.
      </p>
      <p>
        If that address is yours too, sign in with it. Otherwise close this page: nothing was
        changed.
      </p>
      <p>
        <a class="button" href={SWITCH_ACCOUNT_URL}>
          Sign in with another account
        </a>
      </p>
    </>
  ));
}

export interface ClaimedPageProps {
  readonly attempt: ClaimAttempt;
  /** What they are in the workspace now: it may have been handed over since. */
  readonly role: Role;
  readonly review: ClaimReview;
  readonly visitor: SessionUser;
  /** Where the person goes on from here; absent where there is no console. */
  readonly home: string | undefined;
}

export function claimedPage(props: ClaimedPageProps): ClaimPage {
  const { role, visitor, home } = props;
  return page(
    200,
    role === "owner" ? "The account is yours" : "You have joined",
    () => (
      <>
        {role === "owner" ? <OwnerClaimed {...props} /> : <DeveloperJoined {...props} />}
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

const BONUS_ALREADY_GRANTED = "No bonus was added: it is given once per person.";
const DAILY_BONUS_SPENT =
  "No bonus was added: what this gateway gives away in a day had been given when you confirmed. You have not had yours, so another account that you claim may bring it.";
const NO_BONUS_REASONS = {
  had: BONUS_ALREADY_GRANTED,
  open: DAILY_BONUS_SPENT,
  spent_today: DAILY_BONUS_SPENT,
} as const;

function OwnerClaimed({ attempt, review }: ClaimedPageProps): Child {
  const keys = review.keys.length + review.moreKeys;
  const setUp = describeSetup(review);
  return (
    <>
      <h1>The account is yours</h1>
      <p class="intro">
        <code>{review.accountId}</code> is now a workspace that you own, with a balance of{" "}
        {formatUsd(review.balance)}.
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
              ? `A bonus of ${formatUsd(attempt.bonus)} was added to the balance.`
              : NO_BONUS_REASONS[review.bonusState]}
          </li>
        )}
        <li>
          {keys === 0
            ? "No key works any more, so no agent can use the account now."
            : `${pluralize(keys, "key")} ${keys === 1 ? "works" : "work"}: whoever holds ${keys === 1 ? "it" : "one"} can spend the balance.`}
          <KeyList review={review} />
        </li>
        {setUp.map((line) => (
          <li>{line}.</li>
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

function KeyList({ review }: { readonly review: ClaimReview }): Child {
  if (review.keys.length === 0) return null;
  return (
    <ul>
      {review.keys.map((key) => (
        <li>
          <bdi>{key.name ?? "Key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>
          {key.limit === null
            ? ", without a limit"
            : `, limited to ${formatUsd(key.limit)}${key.limitWindow === null ? "" : ` a ${key.limitWindow}`}`}
        </li>
      ))}
      {review.moreKeys === 0 ? null : <li>and {pluralize(review.moreKeys, "other")}</li>}
    </ul>
  );
}

function DeveloperJoined({ review }: ClaimedPageProps): Child {
  return (
    <>
      <h1>You have joined the workspace</h1>
      <p class="intro">
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

function textPage(status: number, title: string, paragraphs: readonly string[]): ClaimPage {
  return page(status, title, () => (
    <>
      <h1>{title}</h1>
      {paragraphs.map((paragraph, index) => (
        <p class={index === 0 ? "intro" : undefined}>{paragraph}</p>
      ))}
    </>
  ));
}

function page(status: number, title: string, main: () => Child, visitor?: SessionUser): ClaimPage {
  return {
    status,
    frame: {
      title,
      isPrivate: true,
      main: main(),
      footer:
        visitor === undefined ? undefined : (
          <form method="post" action="/signout">
            <p>
              Signed in as {visitor.email}. <input type="hidden" name="csrf" value={visitor.csrf} />
              <button type="submit" class="secondary">
                Sign out
              </button>
            </p>
          </form>
        ),
    },
  };
}

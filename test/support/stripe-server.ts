// A Stripe that is not there: the few calls that billing makes, over real HTTP, with state, idempotency keys and its own
// books. It really signs its webhooks, and sends them when it is told to: late, twice, out of order, or never. It can be
// down, slow, and answer with an error after it has done the work.

import { createHmac } from "node:crypto";
import { createSaved, problem, type Saved, type SavedIntent } from "./stripe-saved.ts";

export type Weather = "fine" | "down" | "slow" | "reply lost";

interface Session {
  readonly id: string;
  readonly key: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly reference: string | null;
  readonly cents: number;
  readonly taxed: boolean;
  readonly lines: readonly (readonly [name: string, cents: number])[];
  readonly created: number;
  status: "open" | "complete" | "expired";
  intent: Intent | undefined;
}

interface Intent {
  readonly id: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly cents: number;
  readonly taxCents: number;
  readonly currency: string;
  readonly created: number;
  status: "succeeded" | "processing" | "requires_payment_method";
}

interface Refund {
  readonly id: string;
  readonly intent: Payable;
  readonly cents: number;
  readonly created: number;
  status: "succeeded" | "failed";
}

/** What money can go back of: a payment at a page, or one of a saved method. */
type Payable = Intent | SavedIntent;

interface Dispute {
  readonly id: string;
  readonly intent: Payable;
  readonly cents: number;
  readonly created: number;
  status: "warning_needs_response" | "needs_response" | "won" | "lost";
}

export interface Letter {
  readonly type: string;
  readonly body: string;
}

export interface PaidHow {
  readonly cents?: number;
  readonly taxCents?: number;
  readonly currency?: string;
  readonly state?: Intent["status"];
}

export interface FakeStripe extends Omit<Saved, "route"> {
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
  weather: Weather;
  /** The webhooks that were not sent yet. */
  readonly letters: Letter[];
  /** `<method> <path>` of every call that arrived. */
  readonly calls: string[];
  readonly sessions: () => readonly Session[];
  /** The page that a human was sent to, by its address. */
  readonly sessionAt: (url: string | null) => Session;
  readonly pay: (session: Session, how?: PaidHow) => Intent;
  /** A payment that took days arrives, or does not. */
  readonly conclude: (session: Session, status: "succeeded" | "requires_payment_method") => void;
  readonly expire: (session: Session) => void;
  /** As if it had been another account's. */
  readonly forget: (session: Session) => void;
  readonly refund: (intent: Payable, cents: number) => Refund;
  /** It comes back after all. */
  readonly failRefund: (refund: Refund) => void;
  readonly dispute: (intent: Payable, cents: number, status?: Dispute["status"]) => Dispute;
  readonly close: (dispute: Dispute, status: "won" | "lost") => void;
  /** What is on this Stripe's account, in cents of US dollars. */
  readonly balance: () => number;
  readonly sign: (body: string, at?: number, secret?: string) => string;
  readonly send: (gatewayUrl: string, letter: Letter, at?: number) => Promise<Response>;
  readonly stop: () => Promise<void>;
}

const SECRET = "whsec_of_a_stripe_that_is_not_there";
const KEY = "rk_test_of_a_stripe_that_is_not_there";
const SLOW_MS = 400;

export function startStripe(): FakeStripe {
  const sessions = new Map<string, Session>();
  const refunds: Refund[] = [];
  const disputes: Dispute[] = [];
  const answers = new Map<string, { body: string; answer: string; status: number }>();
  const letters: Letter[] = [];
  const calls: string[] = [];
  let count = 0;
  const newName = (prefix: string): string => `${prefix}_${String((count += 1)).padStart(6, "0")}`;
  const nowSeconds = (): number => Math.floor(Date.now() / 1_000);

  const tell = (type: string, object: unknown): void => {
    const event = {
      id: newName("evt"),
      object: "event",
      api_version: "2026-10-28.endive",
      created: nowSeconds(),
      type,
      data: { object },
    };
    letters.push({ type, body: JSON.stringify(event) });
  };

  const showIntent = (intent: Intent): unknown => ({
    id: intent.id,
    object: "payment_intent",
    status: intent.status,
    amount: intent.cents,
    amount_received: intent.status === "succeeded" ? intent.cents : 0,
    currency: intent.currency,
    created: intent.created,
    metadata: intent.metadata,
  });
  const showSession = (session: Session, expanded: boolean): unknown => ({
    id: session.id,
    object: "checkout.session",
    status: session.status,
    payment_status: session.intent?.status === "succeeded" ? "paid" : "unpaid",
    url: session.status === "open" ? `${fake.url}/c/pay/${session.id}` : null,
    metadata: session.metadata,
    client_reference_id: session.reference,
    amount_subtotal: session.cents,
    amount_total: session.cents + (session.intent?.taxCents ?? 0),
    currency: "usd",
    created: session.created,
    total_details: {
      amount_tax: session.intent?.taxCents ?? 0,
      amount_discount: 0,
      amount_shipping: 0,
    },
    payment_intent:
      session.intent === undefined
        ? null
        : expanded
          ? showIntent(session.intent)
          : session.intent.id,
  });
  const showRefund = ({ id, intent, cents, created, status }: Refund): unknown => ({
    id,
    object: "refund",
    amount: cents,
    currency: intent.currency,
    status,
    payment_intent: intent.id,
    created,
  });
  const showDispute = ({ id, intent, cents, created, status }: Dispute): unknown => ({
    id,
    object: "dispute",
    amount: cents,
    currency: intent.currency,
    status,
    payment_intent: intent.id,
    created,
  });

  const createSession = (form: URLSearchParams): unknown => {
    const lines: (readonly [string, number])[] = [];
    for (let place = 0; form.has(`line_items[${place}][price_data][unit_amount]`); place++) {
      const at = `line_items[${place}]`;
      if (form.get(`${at}[price_data][currency]`) !== "usd") throw new Error("not in dollars");
      const each = Number(form.get(`${at}[price_data][unit_amount]`));
      lines.push([
        form.get(`${at}[price_data][product_data][name]`) ?? "",
        each * Number(form.get(`${at}[quantity]`)),
      ]);
    }
    const id = newName("cs_test");
    const session: Session = {
      id,
      key: id,
      metadata: metadataIn(form, "metadata"),
      reference: form.get("client_reference_id"),
      cents: lines.reduce((sum, [, cents]) => sum + cents, 0),
      taxed: form.get("automatic_tax[enabled]") === "true",
      lines,
      created: nowSeconds(),
      status: "open",
      intent: undefined,
    };
    sessions.set(id, session);
    return showSession(session, false);
  };

  const saved = createSaved({ newName, nowSeconds, tell, metadataIn, url: () => fake.url });
  const route = (method: string, path: string, form: URLSearchParams): unknown => {
    const [, atPage] = /^\/v1\/payment_intents\/(\w+)$/.exec(path) ?? [];
    const paid = [...sessions.values()].find(({ intent }) => intent?.id === atPage)?.intent;
    if (atPage !== undefined && paid !== undefined) return showIntent(paid);
    const known = saved.route(method, path, form);
    if (known !== undefined) return known;
    if (method === "POST" && path === "/v1/checkout/sessions") return createSession(form);
    const [, id = "", verb] = /^\/v1\/checkout\/sessions\/(\w+)(\/expire)?$/.exec(path) ?? [];
    const session = sessions.get(id);
    if (session !== undefined && method === "GET")
      return showSession(session, form.get("expand[0]") === "payment_intent");
    if (session !== undefined && verb !== undefined) {
      if (session.status !== "open")
        throw error(
          400,
          "invalid_request_error",
          'Only Checkout Sessions with a status in ["open"] can be expired.',
        );
      session.status = "expired";
      tell("checkout.session.expired", showSession(session, false));
      return showSession(session, false);
    }
    if (id !== "")
      throw error(
        404,
        "invalid_request_error",
        `No such checkout.session: ${id}`,
        "resource_missing",
      );
    const wanted = form.get("payment_intent");
    if (path === "/v1/checkout/sessions")
      return list(
        [...sessions.values()]
          .filter((one) => one.intent?.id === wanted)
          .map((one) => showSession(one, false)),
      );
    if (path === "/v1/refunds")
      return list(refunds.filter(({ intent }) => intent.id === wanted).map(showRefund));
    if (path === "/v1/disputes")
      return list(disputes.filter(({ intent }) => intent.id === wanted).map(showDispute));
    throw error(404, "invalid_request_error", `Unrecognized request URL (${method}: ${path}).`);
  };

  const answer = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    const sent = request.method === "POST" ? await request.text() : search.slice(1);
    calls.push(`${request.method} ${pathname}`);
    if (fake.weather === "down") return error(503, "api_error", "Stripe is down.");
    if (fake.weather === "slow") await Bun.sleep(SLOW_MS);
    if (request.headers.get("authorization") !== `Bearer ${KEY}`)
      return error(401, "invalid_request_error", "Invalid API Key provided.");
    const key = request.headers.get("idempotency-key");
    const known = key === null ? undefined : answers.get(key);
    if (known !== undefined && known.body !== sent)
      return error(
        400,
        "idempotency_error",
        "Keys for idempotent requests can only be used with the same parameters.",
      );
    try {
      const body =
        known?.answer ?? JSON.stringify(route(request.method, pathname, new URLSearchParams(sent)));
      if (key !== null)
        answers.set(key, { body: sent, answer: body, status: known?.status ?? 200 });
      if (fake.weather === "reply lost") return error(500, "api_error", "The reply was lost.");
      return new Response(body, {
        status: known?.status ?? 200,
        headers: { "content-type": "application/json" },
      });
    } catch (thrown) {
      if (!(thrown instanceof Response)) throw thrown;
      // A refused charge is remembered under its key as well, as Stripe does it.
      const text = await thrown.text();
      if (key !== null && thrown.status === 402)
        answers.set(key, { body: sent, answer: text, status: thrown.status });
      return new Response(text, {
        status: thrown.status,
        headers: { "content-type": "application/json" },
      });
    }
  };
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, development: false, fetch: answer });
  const url = `http://127.0.0.1:${server.port}`;

  const fake: FakeStripe = {
    ...saved,
    url,
    env: { STRIPE_SECRET_KEY: KEY, STRIPE_WEBHOOK_SECRET: SECRET, STRIPE_API_BASE: url },
    weather: "fine",
    letters,
    calls,
    sessions: () => [...sessions.values()],
    sessionAt: (address) => {
      const session = sessions.get(address?.split("/").at(-1) ?? "");
      if (session === undefined) throw new Error(`no page at ${address}`);
      return session;
    },
    pay: (session, { cents, taxCents = 0, currency = "usd", state = "succeeded" } = {}) => {
      if (session.status !== "open") throw new Error("nobody can pay at a page that is not open");
      const intent: Intent = {
        id: newName("pi"),
        metadata: session.metadata,
        cents: cents ?? session.cents + taxCents,
        taxCents,
        currency,
        created: nowSeconds(),
        status: state,
      };
      session.status = "complete";
      session.intent = intent;
      tell("checkout.session.completed", showSession(session, false));
      if (state === "succeeded") tell("payment_intent.succeeded", showIntent(intent));
      return intent;
    },
    conclude: (session, status) => {
      if (session.intent === undefined) throw new Error("nothing is under way");
      session.intent.status = status;
      const ending = status === "succeeded" ? "succeeded" : "failed";
      tell(`checkout.session.async_payment_${ending}`, showSession(session, false));
    },
    expire: (session) => {
      session.status = "expired";
      tell("checkout.session.expired", showSession(session, false));
    },
    forget: ({ id }) => sessions.delete(id),
    refund: (intent, cents) => {
      const refund: Refund = {
        id: newName("re"),
        intent,
        cents,
        created: nowSeconds(),
        status: "succeeded",
      };
      refunds.push(refund);
      tell("refund.created", showRefund(refund));
      tell("charge.refunded", { id: newName("ch"), object: "charge", payment_intent: intent.id });
      return refund;
    },
    failRefund: (refund) => {
      refund.status = "failed";
      tell("refund.failed", showRefund(refund));
    },
    dispute: (intent, cents, status = "needs_response") => {
      const dispute = { id: newName("dp"), intent, cents, created: nowSeconds(), status };
      disputes.push(dispute);
      tell("charge.dispute.created", showDispute(dispute));
      return dispute;
    },
    close: (dispute, status) => {
      dispute.status = status;
      tell("charge.dispute.closed", showDispute(dispute));
    },
    balance: () => {
      const inDollars = ({ intent }: { readonly intent: Payable | undefined }): boolean =>
        intent?.currency === "usd";
      const came = [
        ...sessions.values(),
        ...[...saved.intents.values()].map((intent) => ({ intent })),
      ]
        .filter((session) => inDollars(session) && session.intent?.status === "succeeded")
        .reduce((sum, { intent }) => sum + (intent?.cents ?? 0), 0);
      const went = [
        ...refunds.filter(({ status }) => status === "succeeded"),
        ...disputes.filter(({ status }) => status === "needs_response" || status === "lost"),
      ]
        .filter(inDollars)
        .reduce((sum, { cents }) => sum + cents, 0);
      return came - went;
    },
    sign: (body, at = nowSeconds(), secret = SECRET) =>
      `t=${at},v1=${createHmac("sha256", secret).update(`${at}.${body}`).digest("hex")}`,
    send: (gatewayUrl, letter, at) =>
      fetch(`${gatewayUrl}/webhooks/stripe`, {
        method: "POST",
        headers: {
          "content-type": "application/json; charset=utf-8",
          "stripe-signature": fake.sign(letter.body, at),
        },
        body: letter.body,
      }),
    stop: () => server.stop(true),
  };
  return fake;
}

function list(data: readonly unknown[]): unknown {
  return { object: "list", data, has_more: false, url: "/" };
}

function metadataIn(form: URLSearchParams, name: string): Record<string, string> {
  return Object.fromEntries(
    [...form].flatMap(([field, value]) => {
      const [, key] = new RegExp(`^${name}\\[(\\w+)\\]$`).exec(field) ?? [];
      return key === undefined ? [] : [[key, value]];
    }),
  );
}

function error(status: number, type: string, message: string, code?: string): Response {
  return problem({ status, type, message, ...(code === undefined ? {} : { code }) });
}

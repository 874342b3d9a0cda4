// A call that must be paid for, and the error that asks for the payment.

/** Costs up to $0.60: more than the starting credit, less than one payment buys. */
export const CALL = {
  model: "openai/gpt-5",
  messages: [{ role: "user", content: "[[sim: tokens=20]] hello" }],
  max_tokens: 60_000,
};

/** Also a stream needs credits for all of its output, and so a payment. */
export const WHOLE_HOLD = { "x-postern-hold": "full" };

export interface ErrorBody {
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly param?: string;
    readonly payment_error?: string;
    readonly next?: readonly { readonly url: string; readonly why: string }[];
  };
}

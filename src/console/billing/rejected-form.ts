// A form of the billing page that was rejected.

import type { FormError } from "../../http/pages/page-response.ts";

export interface RejectedForm {
  readonly form: "allow" | "alert" | "details" | undefined;
  /** As entered. */
  readonly values: Readonly<Record<string, string>>;
  readonly error: FormError;
}

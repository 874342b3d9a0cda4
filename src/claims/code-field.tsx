/** @jsxImportSource hono/jsx */
// The input of a claim's six-digit code.

import type { Child } from "hono/jsx";

interface CodeFieldProps {
  readonly label: string;
  readonly error: string | undefined;
}

export function CodeField({ label, error }: CodeFieldProps): Child {
  const hasError = error !== undefined;
  return (
    <>
      <label for="user_code">{label}</label>
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
        aria-invalid={hasError ? "true" : undefined}
        aria-describedby={hasError ? "wrong-code" : undefined}
        autofocus={hasError}
      />
      <FieldError id="wrong-code" message={error} />
    </>
  );
}

export function FieldError({
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

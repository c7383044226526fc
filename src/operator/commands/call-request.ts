// Types of `sluice call`, shared by the verb and its protocols.

/** One call, ready to be sent. */
export interface CallRequest {
  /** http or https, host and port. */
  readonly url: string
  /** '' sends none. */
  readonly token: string
  /** PEM of the authority that signed the server's certificate; null for the system's list. */
  readonly ca: string | null
  readonly method: string
  /** Parsed JSON; undefined when none was given. */
  readonly params: unknown
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal
}

/** One answer: what a person wants of it, and the whole of it for a script. */
export interface Answer {
  readonly result: unknown
  readonly whole: unknown
  /** True for a notification of a subscription or a message of a stream. */
  readonly isUpdate?: boolean
}

/** Yields the answer, then the notifications of a subscription. Throws a CallFailure. */
export type Caller = (request: CallRequest) => AsyncIterable<Answer>

/** An error that the endpoint answered with, as opposed to none that was reached. */
export class CallFailure extends Error {}

// One JSON-RPC exchange with a node: what a caller says, hears and may do. Thread: main.
// Implemented by node-link.ts; made by UpstreamNode.call, used by the proxy and the probes.

/** Header names in lower case. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>

/**
 * Why there is no (whole) answer.
 * - `unreached`: no connection; nothing was sent.
 * - `broken`: the connection ended before the answer did, or it was no HTTP.
 * - `timeout`: no head within the time, or the body stood still.
 * - `left`: the node left the rotation while the call waited for its head; ask another one.
 * - `busy`: more calls wait for this node than it may have; nothing was sent.
 */
export type CallFault = 'unreached' | 'broken' | 'timeout' | 'left' | 'busy'

/** Hears one answer. One of `onEnd` and `onFault` comes last; after `abort` nothing comes. */
export interface AnswerListener {
  onHead(status: number, headers: AnswerHeaders): void
  /** The bytes are borrowed: whoever keeps them copies them. */
  onData(chunk: Buffer): void
  onEnd(): void
  /** `isSent` tells whether the node may have seen the request. */
  onFault(fault: CallFault, isSent: boolean): void
}

export interface NodeCall {
  /** Stops the body at its source, so that nothing piles up here. */
  pause(): void
  resume(): void
  /** Ends it; nothing is heard any more. */
  abort(): void
}

export interface CallOptions {
  /** Until the head must be there; the body may then take as long as it moves. */
  readonly timeoutMs: number
  /** A scan whose time says nothing about the node. */
  readonly isHeavy?: boolean
  /** Is not given up when the node leaves the rotation: a send, which must not go twice. */
  readonly isKept?: boolean
}

// Frames of the metrics stream, each encoded once per encoding whatever the number of clients.
//
//   {"seq":<n>,"<Kind>":<payload>}      JSON, UTF-8; the msgpack form is derived from these bytes
import type { FrameFacts } from '../../base/shared-log.ts'
import { jsonToMsgpack } from './json-to-msgpack.ts'

/** Kinds that a client may subscribe to. Events (spec). */
export const streamKinds = ['TPS', 'ContentionData', 'TopAccesses', 'Lifecycle'] as const
export type StreamKind = (typeof streamKinds)[number]

/** Kinds that the log stores: the four above, and Gap, which goes to every client. */
export const frameKinds = [...streamKinds, 'Gap'] as const
export type FrameKind = (typeof frameKinds)[number]

/**
 * Kind of a frame that a later version of a gateway appended to the shared log: it has its number,
 * so that cursors stay exact, and is sent to nobody.
 */
export const unknownKind = 'unknown'
export type LogKind = FrameKind | typeof unknownKind

export const encodings = ['json', 'msgpack'] as const
export type Encoding = (typeof encodings)[number]

export interface StoredFrame {
  readonly seq: number
  readonly kind: LogKind
  /** The whole frame as JSON, UTF-8. Never changed after it was stored. */
  readonly json: Buffer
  /** The payload alone, without the envelope: what REST serves. A view into `json`. */
  readonly payload: Buffer
  /** Monotonic milliseconds at which the frame's source event was read. */
  readonly sinceMs: number
  /** Null when `append` was called without them. */
  readonly facts: FrameFacts | null
}

/** A frame that is not an event of the log: seq 0 never moves a cursor. */
export function controlFrame(
  kind: 'Resume' | 'Subscribed' | 'Error' | 'Warning',
  payload: unknown,
  encoding: Encoding,
  seq = 0,
): Buffer {
  const json = Buffer.from(JSON.stringify({ seq, [kind]: payload }))
  return encoding === 'json' ? json : jsonToMsgpack(json)
}

/** The bytes before the payload. The payload is followed by one closing brace. */
export function envelope(seq: number, kind: LogKind): string {
  return `{"seq":${seq},"${kind}":`
}

export function toMsgpack(frame: StoredFrame): Buffer {
  return jsonToMsgpack(frame.json)
}

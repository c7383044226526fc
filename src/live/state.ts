// Decides which of its states the page is in, and what it says about it.
// The most serious one wins: a page that cannot see must not look live.
import { clockTime, count, seconds } from './format.ts'

const liveMs = 2_000
/** Limits of the service: degraded after 10 s without an event, streams closed after 30 s. */
const degradedMs = 10_000
const closingMs = 30_000
const slowShownMs = 10_000

export interface Facts {
  readonly link: 'starting' | 'open' | 'offline' | 'refused' | 'unauthorized'
  readonly isHidden: boolean
  readonly isPaused: boolean
  /** Blocks that arrived since the pause. */
  readonly behind: number
  readonly hasBlock: boolean
  /** Frames that a resume still has to deliver. */
  readonly toCatchUp: number
  /** Age of the source's last event. */
  readonly ageMs: number
  readonly lastFrameAtMs: number
  readonly retryAtMs: number
  readonly closeCode: number
  /** The server answers that its source is silent. */
  readonly isSilent: boolean
  readonly refusedFor: string
  readonly slow: { readonly dropped: number; readonly atMs: number } | null
}

export type StateName =
  | 'starting'
  | 'empty'
  | 'catching-up'
  | 'live'
  | 'quiet'
  | 'degraded'
  | 'offline'
  | 'refused'
  | 'unauthorized'
  | 'slow'
  | 'hidden'
  | 'paused'

export interface State {
  readonly name: StateName
  /** A word or two for the pill. */
  readonly text: string
  /** A sentence for the banner; '' when the pill says it all. */
  readonly detail: string
}

export function stateOf(facts: Facts, nowMs: number): State {
  if (facts.isHidden) return state('hidden', 'hidden', 'nothing is drawn while the tab is hidden')
  return linkState(facts, nowMs) ?? dataState(facts, nowMs)
}

function linkState(facts: Facts, nowMs: number): State | null {
  switch (facts.link) {
    case 'unauthorized':
      return state('unauthorized', 'token needed', 'the service refuses requests without a token')
    case 'offline':
      return state(
        'offline',
        `${offlineWord(facts)}, again in ${secondsUp(facts.retryAtMs - nowMs)}`,
        offlineDetail(facts),
      )
    case 'refused':
      return state(
        'refused',
        'polling',
        `the stream was refused, so REST is asked once a second: ${facts.refusedFor}`,
      )
    case 'starting':
      return state('starting', 'connecting', '')
    case 'open':
      return null
  }
}

function dataState(facts: Facts, nowMs: number): State {
  const { ageMs } = facts
  if (!facts.hasBlock && facts.toCatchUp === 0)
    return state('empty', 'no block yet', 'waiting for the first block')
  if (facts.isPaused) return state('paused', `paused, ${count(facts.behind)} blocks behind`, '')
  if (ageMs > degradedMs)
    return state(
      'degraded',
      `no event for ${seconds(ageMs)}`,
      ageMs < closingMs
        ? `the stream closes in ${secondsUp(closingMs - ageMs)} unless an event arrives`
        : 'the stream is closed until the next event',
    )
  if (facts.slow !== null && nowMs - facts.slow.atMs < slowShownMs)
    return state(
      'slow',
      'tab too slow',
      `this tab was too slow: ${count(facts.slow.dropped)} frames replaced by newer ones`,
    )
  if (facts.toCatchUp > 0)
    return state('catching-up', `catching up, ${count(facts.toCatchUp)} frames`, '')
  return ageMs < liveMs
    ? state('live', 'live', '')
    : state('quiet', `quiet for ${seconds(ageMs)}`, '')
}

function offlineWord({ isSilent }: Facts): string {
  return isSilent ? 'source silent' : 'offline'
}

function offlineDetail({ closeCode, isSilent, lastFrameAtMs }: Facts): string {
  const last = lastFrameAtMs === 0 ? '' : `; this picture is from ${clockTime(lastFrameAtMs)}`
  if (isSilent)
    return `the server runs, but its source had no event for 30 s: nothing until the next${last}`
  const why =
    closeCode === 1001
      ? 'the stream closed: the server stops, or its source has been silent for 30 s'
      : 'the server does not answer'
  return why + last
}

function secondsUp(ms: number): string {
  return `${Math.max(0, Math.ceil(ms / 1000))} s`
}

function state(name: StateName, text: string, detail: string): State {
  return { name, text, detail }
}

// The longest cursor there is: a slot in the middle of its accounts at every place of the window.
import { expect, it } from 'vitest'
import {
  cursorText,
  placeOfWrite,
  readCursor,
  SentSlots,
  windowSlots,
} from '../../../../src/streams/pubsub/cursor.ts'

it('is read back, and a longer one is refused', () => {
  const top = 4_000_000_000
  const sent = new SentSlots()
  for (let slot = top - 2 * windowSlots; slot <= top; slot++)
    sent.open(slot, { replaced: 8, parent: slot - 1, place: placeOfWrite('\xff'.repeat(32), 9) })
  expect(sent.partials.size).toBe(windowSlots)
  const text = cursorText({ kind: 'program', commitment: 0 }, sent)
  expect(text.length).toBeGreaterThan(2_000)
  const { bits, partials } = sent
  expect(readCursor(text)).toEqual({ topic: 'program', commitment: 0, top, bits, partials })
  expect(readCursor(`${text}${'A'.repeat(4_000)}`)).toBe('malformed')
})

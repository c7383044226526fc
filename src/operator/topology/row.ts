// What the rows of the topology share: their type and their words.
import type { Component } from '../../base/components.ts'
import { formatQuantity } from '../../base/units.ts'
import type { Components } from './components.ts'
import type { Context } from './context.ts'

export const restarted = 'restarted with exponential back-off'
export const vital = `${restarted}; after too many deaths in a row the server exits`
export const bytes = (count: number) => formatQuantity(count, 'bytes')

/** Checks that a row reads only what it declares. */
export function row<R extends keyof Components, V>(
  component: Component<Components, R, V, Context>,
) {
  return component
}

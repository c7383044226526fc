// The worlds of the simulation.
import { budgets } from './budgets.ts'
import { chain } from './chain-world.ts'
import { destinationWorld } from './destinations.ts'
import { reads } from './reads-world.ts'
import { registry } from './registry.ts'
import { resume } from './resume.ts'
import { segments } from './segments.ts'
import { signatures } from './signatures-world.ts'
import { streams } from './streams-world.ts'
import { transactions } from './transactions-world.ts'
import type { World } from './world.ts'

export const worlds: readonly World[] = [
  chain,
  transactions,
  reads,
  signatures,
  registry,
  segments,
  streams,
  resume,
  budgets,
  destinationWorld,
]

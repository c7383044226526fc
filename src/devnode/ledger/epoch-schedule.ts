// Divides the slots of the chain into epochs.

export interface EpochSchedule {
  readonly slotsPerEpoch: number
  readonly leaderScheduleSlotOffset: number
  readonly warmup: boolean
  readonly firstNormalEpoch: number
  readonly firstNormalSlot: number
}

/** Epochs of equal length from slot 0 on, as a test validator's. */
export function epochScheduleOf(slotsPerEpoch: number): EpochSchedule {
  return {
    slotsPerEpoch,
    leaderScheduleSlotOffset: slotsPerEpoch,
    warmup: false,
    firstNormalEpoch: 0,
    firstNormalSlot: 0,
  }
}

export function epochOf(slot: number, { slotsPerEpoch }: EpochSchedule): number {
  return Math.floor(slot / slotsPerEpoch)
}

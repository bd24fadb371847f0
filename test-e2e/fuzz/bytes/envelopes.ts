import { readEnvelope, writeEnvelope } from '@onceward/core/adapter'
import type { Dice } from '../../support/dice.ts'

/** What was done to an envelope. */
type Hurt = (envelope: Buffer, dice: Dice) => Uint8Array

const at = (envelope: Buffer, dice: Dice): number => Math.floor(dice.next() * envelope.length)

const HURTS: Readonly<Record<string, Hurt>> = {
  cut: (envelope, dice) => envelope.subarray(0, at(envelope, dice)),
  longer: (envelope) => Buffer.concat([envelope, Buffer.of(0x20)]),
  altered: (envelope, dice) => {
    const copy = Buffer.from(envelope)
    const place = at(copy, dice)
    copy[place] = (copy[place] ?? 0) ^ (1 << Math.floor(dice.next() * 8))
    return copy
  },
  'of another version': (envelope) => Buffer.concat([Buffer.of(2), envelope.subarray(1)]),
  'in itself': (envelope) => Buffer.concat([envelope.subarray(0, 9), envelope]),
}

/** What went wrong with an envelope: a damaged one that was read, another error than it must be, one not read back. */
export function wrongEnvelopes(envelope: Uint8Array | undefined, dice: Dice): readonly string[] {
  if (envelope === undefined) return []
  const whole = Buffer.from(envelope)
  const damaged = Object.entries(HURTS).flatMap(([name, hurt]) => {
    const ended = endOf(() => readEnvelope(hurt(whole, dice)))
    return ended === 'EnvelopeError' ? [] : [`an envelope ${name}: ${ended}`]
  })
  const nested = endOf(() => {
    const { inner } = readEnvelope(writeEnvelope({ inner: whole })) as { inner: Buffer }
    if (!whole.equals(inner)) throw new Error('other bytes')
  })
  return nested === 'read' ? damaged : [...damaged, `an envelope in an envelope: ${nested}`]
}

function endOf(read: () => unknown): string {
  try {
    read()
    return 'read'
  } catch (error) {
    return error instanceof Error ? error.constructor.name : typeof error
  }
}

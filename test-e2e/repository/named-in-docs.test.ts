import { describe, expect, it } from 'vitest'
import { missingFrom, namedIn } from './named-in-docs.ts'

describe('what a document names', () => {
  it('is paths and exported names in code spans, and paths in drawings', () => {
    const text = [
      'Open `run/process.ts`, then `DeliveryBuffer` and `settle()`; `npm test` and `ack` are not read.',
      '```',
      'Delivery ──► packages/sqs|kafka/src/settle.ts: settle()',
      '```',
      'Tables escape the bar: `packages/sqs\\|amqp/src/`.',
    ].join('\n')
    expect(namedIn(text)).toEqual({
      paths: ['run/process.ts', 'packages/sqs|amqp/src/', 'packages/sqs|kafka/src/settle.ts'],
      names: ['DeliveryBuffer', 'settle'],
    })
  })

  it.each([
    '`packages/core/src/guard/guard.ts`',
    '`guard/guard.ts`',
    '`guard/`',
    '`packages/sqs|kafka|amqp/src/settle.ts`',
    '`packages/<broker>/src/settle.ts`',
    '`@onceward/core`',
    '`@onceward/core/adapter`',
    '`GuardPort.run`',
    '`portOf`',
    '`createGuard()`',
    '`visibilityMs`',
  ])('finds %s', (text) => {
    expect(missingFrom(text)).toEqual([])
  })

  it.each([
    ['`sqs/src/poll.ts`', 'sqs/src/poll.ts'],
    ['`ard/guard.ts`', 'ard/guard.ts'],
    ['`packages/sqs|stomp/src/settle.ts`', 'packages/sqs|stomp/src/settle.ts'],
    ['`packages/<broker>/src/poll.ts`', 'packages/<broker>/src/poll.ts'],
    ['`rooms/`', 'rooms/'],
    ['`@onceward/core/rooms`', '@onceward/core/rooms'],
    ['`@onceward/stomp`', '@onceward/stomp'],
    ['`GuardPort.walk`', 'walk'],
    ['`createGuards()`', 'createGuards'],
  ])('misses %s, which is gone', (text, missing) => {
    expect(missingFrom(text)).toEqual([missing])
    expect(missingFrom(text, { foreign: [missing] })).toEqual([])
  })
})

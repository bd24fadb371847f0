import { StoreUnavailableError } from '@onceward/core'
import { handMadeGuard } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { consumeSqs } from './consume.ts'
import { RecordingClient } from './fixtures/recording-client.ts'

const queueUrl = 'http://127.0.0.1/000000000000/orders'

async function consuming() {
  const recording = new RecordingClient()
  const kit = handMadeGuard()
  recording.answers.set('receive', async () => {
    await new Promise<void>((resolve) => void kit.clock.runtime.setTimer(resolve, 20_000))
    return {}
  })
  const deadLetter = { queueUrl: `${queueUrl}-dead` }
  const consumption = await consumeSqs(recording.client, kit.guard, { queueUrl, deadLetter })
  await kit.clock.advance(0)
  return { ...kit, consumption }
}

test('health says in the words of its error what does not answer', async () => {
  const { consumption, port } = await consuming()
  const error = new StoreUnavailableError('the server is gone')
  Object.assign(port, { outages: () => [{ dependency: 'inbox', error }] })
  expect(consumption.health().outages).toEqual([
    { dependency: 'inbox', reason: expect.stringContaining('the server is gone') },
  ])
})

test('dead letters of the queue are published from the background until the consumer has stopped', async () => {
  const { clock, consumption, publishers } = await consuming()
  expect([...publishers.keys()]).toEqual([queueUrl])
  const draining = consumption.drain()
  await clock.advance(60_000)
  await draining
  expect([...publishers.keys()]).toEqual([])
})

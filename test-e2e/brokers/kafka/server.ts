import { kafka } from '@onceward/testing'
import type { RunningBroker } from '../broker.ts'
import { freshName } from '../queue-under-test.ts'
import { createTopic, type Topic, type TopicOptions } from './queue.ts'

/** On a busy machine a node whose session ends within two seconds fences itself for ever. */
const SETTINGS = {
  'broker.session.timeout.ms': '9000',
  // With KIP-848 the broker says how long it waits for a silent member; 45 s by default.
  ...{
    'group.consumer.min.session.timeout.ms': '1000',
    'group.consumer.session.timeout.ms': '4000',
  },
  'group.consumer.min.heartbeat.interval.ms': '500',
  'group.consumer.heartbeat.interval.ms': '1000',
}

/** @param own - For every topic that does not say otherwise. */
export async function startKafka(
  own: TopicOptions = {},
): Promise<RunningBroker<Topic, TopicOptions>> {
  const server = await kafka({ settings: SETTINGS })
  return {
    server,
    createQueue: (options) => createTopic(server.connection, freshName(), { ...own, ...options }),
  }
}

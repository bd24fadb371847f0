import { type Cluster, Kafka } from 'kafkajs'
import { expect, test } from 'vitest'
import { withCluster } from './group.ts'

const ignore = (): void => undefined

/** A method that the types of kafkajs leave out. */
interface Offsets {
  committedOffsets(of: { readonly groupId: string }): object
}

// Red with the offsets of the client: when one member joins later than the other, kafkajs forgets the topics of the other
// one, whose next fetch ends with a TypeError.
test('two consumers of one client in one group do not share their offsets', () => {
  const kafka = new Kafka({ brokers: ['127.0.0.1:1'] })
  const offsets = ['orders', 'payments'].map(() => {
    const { config, cluster } = withCluster({ groupId: 'billing' }, 'billing', {
      onStrangers: ignore,
      onDenied: ignore,
    })
    kafka.consumer(config)
    return (cluster() as Cluster & Offsets).committedOffsets(config)
  })
  expect(offsets[0]).not.toBe(offsets[1])
})

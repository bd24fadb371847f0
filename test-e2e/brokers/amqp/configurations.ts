import { type Playable, playable } from '../../fuzz/configurations/playable.ts'
import { RABBITMQ } from './configurations-grid.ts'

export const amqpConfigurations: Playable = playable(
  RABBITMQ,
  ['rabbitmq'],
  async (servers, settings) =>
    (await import('./configurations-scenario.ts')).openRabbitmq(servers, settings),
)

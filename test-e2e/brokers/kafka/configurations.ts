import { type Playable, playable } from '../../fuzz/configurations/playable.ts'
import { KAFKA } from './configurations-grid.ts'

export const kafkaConfigurations: Playable = playable(KAFKA, ['kafka'], async (servers, settings) =>
  (await import('./configurations-scenario.ts')).openKafka(servers, settings),
)

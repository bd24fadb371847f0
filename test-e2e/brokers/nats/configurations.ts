import { type Playable, playable } from '../../fuzz/configurations/playable.ts'
import { NATS } from './configurations-grid.ts'

export const natsConfigurations: Playable = playable(NATS, ['nats'], async (servers, settings) =>
  (await import('./configurations-scenario.ts')).openNats(servers, settings),
)

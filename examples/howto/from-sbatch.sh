#!/bin/bash
#SBATCH --job-name=sft
#SBATCH --partition=gpu
#SBATCH --account=lab42
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=96
#SBATCH --mem=0
#SBATCH --time=12:00:00
#SBATCH --output=logs/%x-%j.out
#SBATCH --exclusive
#SBATCH --mail-type=END,FAIL

module load cuda/12.8
source ~/venvs/train/bin/activate
export HF_HOME=/scratch/$USER/hf
export NCCL_DEBUG=INFO
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500

srun torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d \
    --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" train.py --lr 3e-5

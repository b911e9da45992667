"""What a folder with a training program holds, and the job.yaml that follows from it.

Pure: the folder comes as a listing, and nothing of it is run or imported.
"""
